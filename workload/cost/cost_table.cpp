// Prices a Kernel or a communication by interpolation between measured rows: times are linear in
// bytes, rates linear in the logarithm of FLOPs.
#include "workload/cost/cost_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, kCostKinds> kNames = {
    "gemm",           "attention",  "memory",     "kernel",     "send", "all_reduce",
    "reduce_scatter", "all_gather", "all_to_all", "ring_shift", "copy", "slowdown"};

// Returns the time for a size: linear between the two nearest measured sizes. Below the smallest it
// is the smallest size's time; above the largest it grows in proportion to the size.
double by_size(const std::map<double, double>& ns_of, double size) {
  const auto above = ns_of.lower_bound(size);
  if (above == ns_of.end()) {
    const auto& [most, ns] = *ns_of.rbegin();
    return most > 0 ? ns * size / most : ns;
  }
  if (above == ns_of.begin() || above->first == size) return above->second;
  const auto below = std::prev(above);
  const double share = (size - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

// Returns the rate for a number of FLOPs: linear in its logarithm between the two nearest measured
// numbers, constant beyond the ends.
double by_flops(const std::map<double, double>& rate_of, double flops) {
  const auto above = rate_of.lower_bound(flops);
  if (above == rate_of.end()) return rate_of.rbegin()->second;
  if (above == rate_of.begin() || above->first == flops) return above->second;
  const auto below = std::prev(above);
  const double share = std::log(flops / below->first) / std::log(above->first / below->first);
  return below->second + share * (above->second - below->second);
}

// Returns FLOPs per nanosecond by FLOPs, of the rows that match. Shapes with equally many FLOPs
// count with their mean rate.
template <class Matches>
std::map<double, double> rates(const CostTable& table, Matches matches) {
  struct RateSum {
    double sum = 0;
    int rows = 0;
  };
  std::map<double, RateSum> sums;
  for (const CostRow& row : table.rows) {
    if (!matches(row)) continue;
    RateSum& at = sums[row.flops()];
    at.sum += row.flops() / static_cast<double>(row.p50_ns);
    ++at.rows;
  }
  std::map<double, double> rates;
  for (const auto& [flops, total] : sums) rates[flops] = total.sum / total.rows;
  return rates;
}

// Returns nanoseconds by bytes, of the rows that match.
template <class Matches>
std::map<double, double> times_by_bytes(const CostTable& table, Matches matches) {
  std::map<double, double> times;
  for (const CostRow& row : table.rows) {
    if (matches(row)) times[row.bytes] = static_cast<double>(row.p50_ns);
  }
  return times;
}

Error nothing_for(const CostTable& table, const std::string& shape, CostKind what) {
  return Error::at(table.path, fmt::format("found nothing to price {} by, expected rows of '{}'",
                                           shape, cost_kind_name(what)));
}

Result<double> gemm_ns(const CostTable& table, const Gemm& gemm, int* interpolated) {
  if (const CostRow* row = table.find({.what = CostKind::Gemm, .gemms = {gemm}}))
    return static_cast<double>(row->p50_ns);
  ++*interpolated;
  const auto is_gemm = [](const CostRow& row) { return row.what == CostKind::Gemm; };
  auto known = rates(table, [&](const CostRow& row) {
    return is_gemm(row) && row.gemms[0].in_16_bits == gemm.in_16_bits;
  });
  if (known.empty()) known = rates(table, is_gemm);
  if (known.empty()) return nothing_for(table, "the GEMM " + gemms_text({gemm}), CostKind::Gemm);
  return gemm.flops() / by_flops(known, gemm.flops());
}

Result<double> attention_ns(const CostTable& table, double flops, int* interpolated) {
  const auto known =
      rates(table, [](const CostRow& row) { return row.what == CostKind::Attention; });
  if (known.empty())
    return nothing_for(table, fmt::format("attention of {:g} FLOPs", flops), CostKind::Attention);
  if (!known.contains(flops)) ++*interpolated;
  return flops / by_flops(known, flops);
}

Result<double> passes_ns(const CostTable& table, double bytes) {
  const auto known =
      times_by_bytes(table, [](const CostRow& row) { return row.what == CostKind::Memory; });
  if (known.empty())
    return nothing_for(table, fmt::format("passes over {:g} bytes", bytes), CostKind::Memory);
  return by_size(known, bytes);
}

// Returns the price of a kernel that was measured as a whole. Its share of memory-bound passes is
// found from the rows of such passes, if there are any.
KernelPrice whole_price(const CostTable& table, const Kernel& kernel, const CostRow& row) {
  KernelPrice price;
  price.ns = std::max(row.p50_ns, to_ns(kernel.launch_s));
  if (kernel.memory_bytes <= 0) return price;
  price.memory_share = kernel.memory_share;
  const auto passes = passes_ns(table, kernel.memory_bytes);
  if (passes.ok() && price.ns > 0)
    price.memory_share = std::min(1.0, *passes / static_cast<double>(price.ns));
  return price;
}

}  // namespace

std::string_view cost_kind_name(CostKind what) { return kNames[static_cast<std::size_t>(what)]; }

CostKind cost_kind(CommKind kind) {
  return static_cast<CostKind>(static_cast<int>(CostKind::Send) + static_cast<int>(kind));
}
static_assert(static_cast<int>(CostKind::Send) + static_cast<int>(CommKind::RingShift) ==
              static_cast<int>(CostKind::RingShift));
static_assert(static_cast<int>(CostKind::Send) + static_cast<int>(CommKind::AllReduce) ==
              static_cast<int>(CostKind::AllReduce));

double CostRow::flops() const {
  double sum = attention_flops;
  for (const Gemm& gemm : gemms) sum += gemm.flops();
  return sum;
}

bool CostRow::same_as(const CostRow& other) const {
  return what == other.what && gemms == other.gemms && attention_flops == other.attention_flops &&
         bytes == other.bytes && ranks == other.ranks && between_nodes == other.between_nodes &&
         sms == other.sms && (what != CostKind::Slowdown || name == other.name);
}

std::string_view CostTable::meta_value(std::string_view key) const {
  const auto at = std::ranges::find(meta, key, [](const auto& line) { return line.first; });
  return at == meta.end() ? std::string_view() : std::string_view(at->second);
}

const CostRow* CostTable::find(const CostRow& like) const {
  const auto at = std::ranges::find_if(rows, [&](const CostRow& row) { return row.same_as(like); });
  return at == rows.end() ? nullptr : &*at;
}

std::pair<double, std::string_view> rate_of(const CostTable& table, const CostRow& row) {
  const double seconds = to_seconds(row.p50_ns);
  if (row.what == CostKind::Slowdown) {
    const CostRow* alone = table.find({.what = CostKind::Gemm, .gemms = row.gemms});
    return {alone == nullptr ? 0 : seconds / to_seconds(alone->p50_ns), "ratio"};
  }
  if (row.flops() > 0) return {row.flops() / seconds, "flop/s"};
  return {row.bytes / seconds, "byte/s"};
}

Result<KernelPrice> kernel_price(const CostTable& table, const Kernel& kernel) {
  const CostRow* whole = table.find({.what = CostKind::Kernel,
                                     .gemms = kernel.gemms,
                                     .attention_flops = kernel.attention_flops,
                                     .bytes = kernel.memory_bytes});
  if (whole != nullptr) return whole_price(table, kernel, *whole);
  KernelPrice price;
  double ns = 0, memory_ns = 0;
  for (const Gemm& gemm : kernel.gemms) {
    ASSIGN_OR_RETURN(const double own_ns, gemm_ns(table, gemm, &price.interpolated));
    ns += own_ns;
  }
  if (kernel.attention_flops > 0) {
    ASSIGN_OR_RETURN(const double own_ns,
                     attention_ns(table, kernel.attention_flops, &price.interpolated));
    ns += own_ns;
  }
  if (kernel.memory_bytes > 0) {
    ASSIGN_OR_RETURN(memory_ns, passes_ns(table, kernel.memory_bytes));
    ns += memory_ns;
  }
  ns = std::max(ns, kernel.launch_s * 1e9);
  price.ns = to_ns(ns * 1e-9);
  price.memory_share = ns > 0 ? memory_ns / ns : 0;
  return price;
}

std::optional<Nanoseconds> comm_ns(const CostTable& table, CommKind kind, int ranks,
                                   bool between_nodes, double bytes) {
  const auto times_of = [&](CostKind what) {
    return times_by_bytes(table, [&](const CostRow& row) {
      return row.what == what && row.ranks == ranks && row.between_nodes == between_nodes;
    });
  };
  std::map<double, double> known = times_of(cost_kind(kind));
  if (known.empty() && kind == CommKind::SendRecv) known = times_of(CostKind::Copy);
  if (known.empty()) return std::nullopt;
  return std::llround(by_size(known, bytes));
}

Status check_covers(const CostTable& table, bool attention) {
  std::vector<std::pair<CostKind, std::string_view>> needed = {
      {CostKind::Gemm, "GEMMs"}, {CostKind::Memory, "memory-bound passes"}};
  if (attention) needed.emplace_back(CostKind::Attention, "fused attention");
  for (const auto& [what, shape] : needed) {
    if (std::ranges::find(table.rows, what, &CostRow::what) == table.rows.end())
      return nothing_for(table, std::string(shape), what);
  }
  return Done{};
}

}  // namespace tandem
