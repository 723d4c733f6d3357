// Groups the measured computations and collectives of a profile by what they did, for instance all
// GEMMs of one shape, and makes of each group a row of the cost table: its 5th, 50th and 95th
// percentile. In: a profile whose calls have shapes. Out: the rows, and how many calls had to be
// left out.
#include "traces/profile/profile_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/quantile.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/profile_metrics.h"
#include "traces/profile/torch_calls.h"

namespace tandem {
namespace {

// A row in the making: its computation or collective, and the time of each one that was recorded.
struct RowSamples {
  CostRow row;
  std::string dtype;
  std::vector<Nanoseconds> ns;
};
using SamplesByRow = std::map<std::string, RowSamples>;

std::string key_of(const CostRow& row, std::string_view dtype) {
  return fmt::format("{} {} {} {} {} {} {}", cost_kind_name(row.what), dtype, gemms_text(row.gemms),
                     row.attention_flops, row.bytes, row.ranks, row.between_nodes);
}

void add_sample(const CostRow& row, std::string_view dtype, Nanoseconds ns, SamplesByRow* samples) {
  RowSamples& own = (*samples)[key_of(row, dtype)];
  own.row = row;
  own.dtype = dtype;
  own.ns.push_back(ns);
}

// Returns for each of rank.calls the number of the innermost one around it; -1: none.
std::vector<int> calls_around(const std::vector<ShapedCall>& calls) {
  std::vector<int> around(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto is_open = [&](int outer) {
      return calls[outer].thread == calls[i].thread && calls[i].start_ns < calls[outer].end_ns;
    };
    int outer = static_cast<int>(i) - 1;
    while (outer >= 0 && !is_open(outer)) outer = around[outer];
    around[i] = outer;
  }
  return around;
}

// Returns for each of rank.calls the time of the compute kernels that it launched, added up. A
// kernel belongs to the innermost call that was open on the launching thread at the launch.
std::vector<Nanoseconds> ns_of_calls(const ProfileRank& rank) {
  std::vector<Nanoseconds> ns(rank.calls.size(), 0);
  const std::vector<int> around = calls_around(rank.calls);
  const auto before = [](const ShapedCall& call) { return std::pair(call.thread, call.start_ns); };
  for (const ProfileKernel& kernel : rank.kernels) {
    if (kernel.launch < 0 || kernel.activity != Activity::Compute) continue;
    const Launch& launch = rank.launches[kernel.launch];
    const auto after =
        std::ranges::upper_bound(rank.calls, std::pair(launch.thread, launch.at_ns), {}, before);
    auto call = static_cast<int>(after - rank.calls.begin()) - 1;
    while (call >= 0 && rank.calls[call].end_ns < launch.at_ns) call = around[call];
    if (call >= 0 && rank.calls[call].thread == launch.thread)
      ns[call] += kernel.end_ns - kernel.start_ns;
  }
  return ns;
}

void add_calls(const ProfileRank& rank, SamplesByRow* samples, ProfileCosts* costs) {
  const std::vector<Nanoseconds> ns = ns_of_calls(rank);
  for (std::size_t i = 0; i < rank.calls.size(); ++i) {
    if (ns[i] == 0) continue;
    const ShapedCall& call = rank.calls[i];
    const std::optional<PricedCall> priced =
        priced_call(rank.names.text(call.name), {.shapes = rank.names.text(call.shapes),
                                                 .types = rank.names.text(call.types),
                                                 .values = rank.names.text(call.values)});
    if (!priced) {
      ++costs->unknown_calls;
      continue;
    }
    const bool is_product = priced->row.what == CostKind::Gemm;
    add_sample(priced->row, is_product ? priced->dtype : "", ns[i], samples);
  }
}

// Returns the ranks that take part: the list among the collective's arguments, or that of its
// process group where the profiler shortened the former ("[0, 1, ...]", not valid JSON). Empty:
// unknown.
std::vector<int> members_of(const ProfileRank& rank, const CollectiveArgs& args) {
  const auto json = nlohmann::json::parse(rank.names.text(args.ranks), nullptr, false);
  const auto is_number = [](const auto& value) { return value.is_number_integer(); };
  if (json.is_array() && std::ranges::all_of(json, is_number)) return json.get<std::vector<int>>();
  const auto group =
      std::ranges::find(rank.groups, rank.names.text(args.group), &ProcessGroup::name);
  return group == rank.groups.end() ? std::vector<int>() : group->ranks;
}

void add_collectives(const ProfileRank& rank, const std::set<int>& present, int gpus_per_node,
                     SamplesByRow* samples) {
  for (const ProfileKernel& kernel : rank.kernels) {
    if (kernel.collective < 0 || kernel.activity != Activity::Communication) continue;
    const std::optional<CommKind> kind = comm_kind_of(label_of(rank, kernel).collective);
    const std::optional<double> bytes = bytes_of(rank, kernel);
    if (!kind || *kind == CommKind::SendRecv || !bytes || *bytes == 0) continue;
    const std::vector<int> ranks = members_of(rank, rank.collectives[kernel.collective]);
    const auto is_present = [&](int member) { return present.contains(member); };
    if (ranks.size() < 2 || !std::ranges::all_of(ranks, is_present)) continue;
    const auto node_of = [&](int member) { return member / gpus_per_node; };
    const bool between = std::ranges::any_of(
        ranks, [&](int member) { return node_of(member) != node_of(ranks.front()); });
    const CostRow row{.what = cost_kind(*kind),
                      .bytes = *bytes,
                      .ranks = static_cast<int>(ranks.size()),
                      .between_nodes = between};
    add_sample(row, "", kernel.end_ns - kernel.transfer_start_ns, samples);
  }
}

// Returns the precision of the GEMMs that took longest; "" if there are none.
std::string precision_of(const SamplesByRow& samples) {
  std::map<std::string, Nanoseconds> ns_of;
  for (const auto& [key, own] : samples) {
    if (own.row.what != CostKind::Gemm) continue;
    for (const Nanoseconds ns : own.ns) ns_of[own.dtype] += ns;
  }
  const auto longest =
      std::ranges::max_element(ns_of, {}, [](const auto& precision) { return precision.second; });
  return longest == ns_of.end() ? "" : longest->first;
}

CostRow row_of_samples(RowSamples samples) {
  std::ranges::sort(samples.ns);
  CostRow row = std::move(samples.row);
  row.count = static_cast<std::int64_t>(samples.ns.size());
  row.p5_ns = nearest_rank(samples.ns, 0.05);
  row.p50_ns = std::max<Nanoseconds>(1, nearest_rank(samples.ns, 0.5));
  row.p95_ns = std::max(row.p50_ns, nearest_rank(samples.ns, 0.95));
  return row;
}

std::vector<std::pair<std::string, std::string>> meta_of(const Profile& profile,
                                                         const std::string& precision,
                                                         int gpus_per_node) {
  std::set<std::string> profilers, devices;
  std::vector<std::string> files;
  for (const ProfileRank& rank : profile.ranks) {
    profilers.insert(rank.profiler);
    if (!rank.device.empty()) devices.insert(rank.device);
    files.push_back(rank.path);
  }
  std::vector<std::pair<std::string, std::string>> meta = {
      {"profile", fmt::format("{}", fmt::join(files, ", "))},
      {"profiler", fmt::format("{}", fmt::join(profilers, ", "))}};
  if (!devices.empty()) meta.emplace_back("device", fmt::format("{}", fmt::join(devices, ", ")));
  meta.emplace_back("precision", precision);
  if (gpus_per_node > 0) meta.emplace_back("gpus_per_node", fmt::format("{}", gpus_per_node));
  return meta;
}

// Returns the samples with which a table of that precision is made. Leaves out GEMMs of another
// precision and counts them, except that under fp8 products of activations still run in 16 bits.
SamplesByRow samples_at(const std::string& precision, SamplesByRow all, std::int64_t* left_out) {
  SamplesByRow rows;
  for (auto& [key, own] : all) {
    if (own.row.what == CostKind::Gemm && own.dtype != precision) {
      const bool in_16_bits = own.dtype == "bf16" || own.dtype == "fp16";
      if (precision != "fp8" || !in_16_bits) {
        *left_out += static_cast<std::int64_t>(own.ns.size());
        continue;
      }
      own.row.gemms.front().in_16_bits = true;
    }
    for (const Nanoseconds ns : own.ns) add_sample(own.row, "", ns, &rows);
  }
  return rows;
}

}  // namespace

Result<ProfileCosts> cost_table_of(const Profile& profile, int gpus_per_node) {
  ProfileCosts costs;
  SamplesByRow samples;
  std::set<int> present;
  for (const ProfileRank& rank : profile.ranks) present.insert(rank.rank);
  for (const ProfileRank& rank : profile.ranks) {
    add_calls(rank, &samples, &costs);
    if (gpus_per_node > 0) add_collectives(rank, present, gpus_per_node, &samples);
  }
  const std::string precision = precision_of(samples);
  if (precision.empty())
    return Error::at(profile.ranks.front().path,
                     "found no GEMM whose shape is told, expected calls such as aten::mm with "
                     "their Input Dims: torch.profiler has them with record_shapes=True");
  for (auto& [key, own] : samples_at(precision, std::move(samples), &costs.other_dtype))
    costs.table.rows.push_back(row_of_samples(std::move(own)));
  std::ranges::stable_sort(costs.table.rows, {}, [](const CostRow& row) {
    return std::tuple(row.what, row.ranks, row.between_nodes, row.flops(), row.bytes);
  });
  costs.table.meta = meta_of(profile, precision, gpus_per_node);
  return costs;
}

}  // namespace tandem
