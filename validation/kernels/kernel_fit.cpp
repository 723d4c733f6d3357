// Fits a few constants of the cost model to a table of timed operations, by damped Gauss-Newton. A
// residual is log(predicted / measured) of one operation. For an honest error, the fit is repeated
// with half of the rows, and predicts the other half.
#include "validation/kernels/kernel_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/csv.h"
#include "base/random.h"
#include "base/units.h"
#include "schedule/lowering/price.h"
#include "topology/preset.h"
#include "topology/traffic.h"
#include "workload/cost/kernel.h"
#include "workload/model/moe.h"

namespace tandem {
namespace {

constexpr const char* kPrecision = "bf16";
constexpr std::int64_t kMost = 1 << 30;  // of any size in a table

// Returns the kernel's time if nothing else runs: at full clocks, by the constants that are fitted.
// A precision's own constants (DeviceSpec::own_gemms) would go before them.
double alone_s(const DeviceSpec& device, const Kernel& kernel) {
  CostModel model{.device = device, .precision = kPrecision};
  model.device.training_clock = 1;
  model.device.own_gemms.clear();
  return to_seconds(kernel_ns(model, kernel));
}

// Returns two halves of the rows, which alternate in a shuffled order.
template <class Row>
std::pair<std::vector<Row>, std::vector<Row>> halves_of(const std::vector<Row>& rows) {
  std::vector<std::size_t> order(rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [](std::size_t i) { return scatter(i); });
  std::pair<std::vector<Row>, std::vector<Row>> halves;
  for (std::size_t i = 0; i < order.size(); ++i)
    (i % 2 == 0 ? halves.first : halves.second).push_back(rows[order[i]]);
  return halves;
}

// Returns the fit to all rows, and the errors of a fit to one half on the other half.
template <class Spec, class Row, class ResidualsOf>
Fitted<Spec> fitted(const Spec& spec, const std::vector<Row>& rows,
                    const std::vector<FittedConstant<Spec>>& constants,
                    const ResidualsOf& residuals_of) {
  const auto [seen, unseen] = halves_of(rows);
  return {fit_to(spec, rows, constants, residuals_of),
          errors_of(residuals_of(fit_to(spec, seen, constants, residuals_of), unseen))};
}

std::vector<double> kernel_residuals(const DeviceSpec& device,
                                     const std::vector<TimedKernel>& kernels) {
  std::vector<double> all;
  for (const TimedKernel& timed : kernels)
    all.push_back(std::log(alone_s(device, timed.kernel) / timed.measured_s));
  return all;
}

std::vector<DeviceId> first_devices(int gpus) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < gpus; ++i) devices.push_back(DeviceId{i});
  return devices;
}

std::vector<double> collective_residuals(const ClusterSpec& spec,
                                         const std::vector<TimedCollective>& timed) {
  const auto cluster = Cluster::build(spec, spec.gpus_per_node);
  CHECK(cluster.ok());
  std::vector<double> all;
  for (const TimedCollective& one : timed) {
    const Nanoseconds ns = collective_ns(*cluster, one.kind, one.bytes, first_devices(one.gpus));
    all.push_back(std::log(to_seconds(ns) / one.measured_s));
  }
  return all;
}

std::vector<double> exchange_residuals(const ClusterSpec& spec,
                                       const std::vector<TimedExchange>& timed) {
  const auto cluster = Cluster::build(spec, spec.gpus_per_node);
  CHECK(cluster.ok());
  std::map<int, Choices> choices_of;  // by GPUs
  std::vector<double> all;
  for (const TimedExchange& one : timed) {
    Choices& ways = choices_of[one.gpus];
    if (ways.empty()) ways = traffic_choices(*cluster, CommKind::AllToAll, first_devices(one.gpus));
    const ExchangeKernel kernel = deepep_kernel(spec.device, one.sms, one.copy_bytes);
    const CommCost cost{.overhead_s = kernel.launch_s,
                        .limit_bytes_per_s = kernel.bytes_per_s,
                        .posts_at_once = true};  // no latency for each peer
    const Bytes bytes = std::llround(one.copies * one.copy_bytes);
    all.push_back(
        std::log(to_seconds(duration_ns(at_training_cost(ways, GroupKind::Expert, cost), bytes)) /
                 one.measured_s));
  }
  return all;
}

Error no_rows(const std::string& path) {
  return Error::at(path + ":1", "found a header alone, expected rows");
}

// Reads a table of kernels. kernel_of(size) makes a row's kernel, where size("m") reads the row's
// column "m".
template <class KernelOf>
Result<TimedKernels> read_kernels(const std::string& path, const KernelOf& kernel_of) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  const std::vector<std::string> known = device_names();
  TimedKernels kernels;
  for (int row = 0; row < table.size(); ++row) {
    const std::string gpu(table.text(row, "gpu"));
    if (std::ranges::find(known, gpu) == known.end())
      return table.error(row, fmt::format("found the GPU '{}', expected a known one", gpu));
    Status wrong = Done{};  // the row's first cell that is no size, for which size() returns 1
    const auto size = [&](const char* column) -> std::int64_t {
      const auto value = table.integer(row, column);
      const bool is_size = value.ok() && *value >= 1 && *value <= kMost;
      if (is_size) return *value;
      if (wrong.ok())
        wrong = table.error(
            row, fmt::format("column '{}': expected an integer from 1 to {}", column, kMost));
      return 1;
    };
    TimedKernel timed{kernel_of(size), 0};
    if (!wrong.ok()) return wrong.error();
    ASSIGN_OR_RETURN(const double us, table.number(row, "time_us"));
    if (!(us > 0)) return table.error(row, "column 'time_us': expected a time above 0");
    timed.measured_s = us * 1e-6;
    kernels[gpu].push_back(std::move(timed));
  }
  if (kernels.empty()) return no_rows(path);
  return kernels;
}

// Returns a row's positive integers.
Result<std::array<int, 6>> sizes_of(const CsvTable& table, int row,
                                    const std::array<const char*, 6>& columns) {
  std::array<int, 6> sizes{};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    ASSIGN_OR_RETURN(const std::int64_t value, table.integer(row, columns[i]));
    if (value < 1 || value > kMost)
      return table.error(
          row, fmt::format("column '{}': expected an integer from 1 to {}", columns[i], kMost));
    sizes[i] = static_cast<int>(value);
  }
  return sizes;
}

}  // namespace

Result<TimedKernels> read_gemms(const std::string& path) {
  return read_kernels(path, [](const auto& size) {
    return Kernel{.gemms = {{.m = size("m"), .n = size("n"), .k = size("k")}}};
  });
}

Result<TimedKernels> read_attentions(const std::string& path) {
  return read_kernels(path, [](const auto& size) {
    const std::int64_t seq = size("seq"), head = size("head_size");
    const auto matrices = static_cast<double>(size("batch") * size("heads"));
    // Two products, Q x K and scores x V, each of 2 seq^2 head FLOPs. A causal mask halves them.
    const double whole = 4 * matrices * static_cast<double>(seq) * static_cast<double>(seq) *
                         static_cast<double>(head);
    return Kernel{.attention_flops = whole / 2, .attention = {.keys = seq, .head_size = head}};
  });
}

// The numbers in a line: the key's unit, then start, step, least and most in that unit. Example:
// gemm_launch_us is in 1e-6 s, starts at 3 us, first moves by 2, and stays from 0 to 20.
#define AT(field) [](auto& spec) -> double& { return spec.field; }

const std::vector<DeviceConstant>& gemm_constants() {
  static const std::vector<DeviceConstant> kConstants = {
      {"gemm_efficiency", AT(gemm_efficiency), 1, 0.75, 0.1, 0.1, 1},
      {"gemm_ramp_k", AT(gemm_ramp_k), 1, 100, 50, 0, 400},
      {"gemm_whole_wave", AT(gemm_whole_wave), 1, 0.3, 0.2, 0, 1},
      {"gemm_launch_us", AT(gemm_launch_s), 1e-6, 3, 2, 0, 20}};
  return kConstants;
}

const std::vector<DeviceConstant>& attention_constants() {
  static const std::vector<DeviceConstant> kConstants = {
      {"attention_efficiency", AT(attention_efficiency), 1, 0.55, 0.1, 0.05, 1},
      {"attention_ramp_keys", AT(attention_ramp_keys), 1, 1200, 500, 0, 5000},
      {"attention_softmax_size", AT(attention_softmax_size), 1, 60, 30, 0, 500},
      {"attention_launch_us", AT(attention_launch_s), 1e-6, 30, 10, 0, 200}};
  return kConstants;
}

const std::vector<ClusterConstant>& collective_constants() {
  static const std::vector<ClusterConstant> kConstants = {
      {"intra_latency_us", AT(intra_latency_s), 1e-6, 3, 1, 1, 10},
      {"intra_base_us", AT(intra_base_s), 1e-6, 40, 20, 0, 200},
      {"intra_ll_latency", AT(intra_low_latency.latency), 1, 0.5, 0.1, 0.05, 1},
      {"intra_ll_rate", AT(intra_low_latency.rate), 1, 0.5, 0.1, 0.05, 1},
      {"gather_efficiency", AT(gather_efficiency), 1, 0.9, 0.1, 0.3, 1},
      {"alltoall_efficiency", AT(alltoall_efficiency), 1, 0.8, 0.1, 0.3, 1},
      {"pair_efficiency", AT(pair_efficiency), 1, 0.8, 0.1, 0.3, 1}};
  return kConstants;
}

const std::vector<ClusterConstant>& exchange_constants() {
  static const std::vector<ClusterConstant> kConstants = {
      {"deepep_launch_us", AT(device.deepep_launch_s), 1e-6, 50, 10, 0, 200},
      {"deepep_copy_us", AT(device.deepep_copy_s), 1e-6, 0.1, 0.05, 0, 2},
      {"deepep_sm_GBps", AT(device.deepep_sm_bytes_per_s), GB, 23, 5, 1, 200}};
  return kConstants;
}

#undef AT

Fitted<DeviceSpec> fit_kernels(const DeviceSpec& device, const std::vector<TimedKernel>& kernels,
                               const std::vector<DeviceConstant>& constants) {
  return fitted(device, kernels, constants, kernel_residuals);
}

Fitted<ClusterSpec> fit_collectives(const ClusterSpec& spec,
                                    const std::vector<TimedCollective>& timed) {
  return fitted(spec, timed, collective_constants(), collective_residuals);
}

Fitted<ClusterSpec> fit_exchanges(const ClusterSpec& spec,
                                  const std::vector<TimedExchange>& timed) {
  return fitted(spec, timed, exchange_constants(), exchange_residuals);
}

Errors collective_errors(const ClusterSpec& spec, const std::vector<TimedCollective>& timed) {
  return errors_of(collective_residuals(spec, timed));
}

Result<TimedCollectives> read_collectives(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  TimedCollectives all;
  for (int row = 0; row < table.size(); ++row) {
    const std::string preset(table.text(row, "preset")), op(table.text(row, "op"));
    const auto kind = comm_kind_named(op);
    if (!kind) return table.error(row, fmt::format("found '{}', expected nccl-tests' name", op));
    const auto spec = load_preset(preset);
    if (!spec.ok()) return table.error(row, spec.error().text());
    ASSIGN_OR_RETURN(const std::int64_t gpus, table.integer(row, "gpus"));
    ASSIGN_OR_RETURN(const std::int64_t bytes, table.integer(row, "bytes"));
    ASSIGN_OR_RETURN(const double us, table.number(row, "time_us"));
    if (gpus < 2 || gpus > spec->gpus_per_node || bytes < 1 || !(us > 0))
      return table.error(row, "expected 2 GPUs or more of one node, and bytes and time above 0");
    all[preset].push_back({*kind, static_cast<int>(gpus), bytes, us * 1e-6});
  }
  if (all.empty()) return no_rows(path);
  return all;
}

Result<TimedExchanges> read_exchanges(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  TimedExchanges all;
  for (int row = 0; row < table.size(); ++row) {
    const std::string preset(table.text(row, "preset")), op(table.text(row, "op"));
    const auto spec = load_preset(preset);
    if (!spec.ok()) return table.error(row, spec.error().text());
    if (op != "dispatch" && op != "combine")
      return table.error(row, fmt::format("found '{}', expected dispatch or combine", op));
    ASSIGN_OR_RETURN(const auto sizes,
                     sizes_of(table, row, {"gpus", "hidden", "tokens", "top_k", "experts", "sms"}));
    ASSIGN_OR_RETURN(const double us, table.number(row, "time_us"));
    const auto [gpus, hidden, tokens, top_k, experts, sms] = sizes;
    if (gpus < 2 || gpus > spec->gpus_per_node || top_k > experts || !(us > 0))
      return table.error(row, "expected 2 GPUs or more of one node, top_k experts and a time");
    const double number_bytes = op == "dispatch" ? kFp8CopyBytes : bytes_of(kPrecision);
    // A token goes once to each GPU that has one or more of its top_k experts.
    const double copies = tokens * places_of_token(experts, top_k, gpus);
    all[preset].push_back({gpus, sms, copies, number_bytes * hidden, us * 1e-6});
  }
  if (all.empty()) return no_rows(path);
  return all;
}

}  // namespace tandem
