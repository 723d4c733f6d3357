#include "validation/kernels/expert_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/csv.h"
#include "topology/preset.h"
#include "workload/cost/kernel.h"

namespace tandem {
namespace {

constexpr int kMostOfAnySize = 1 << 20;
constexpr int kParts = 25;  // of the shapes: each is predicted by a fit to the others

// Passes over an array of 16-bit numbers, as workload/model/blocks.cpp counts them. A copy of a
// token is read and written, and read again for its token's sum. The timed rank is given the tokens
// of all ranks, and writes a sum for each, also where none of its experts has a copy. The
// activation reads one or two inner arrays and writes one; pass_share, which is what fusion and
// caches leave of passes, applies to it alone.
constexpr double kCopyPasses = 3, kTokenPasses = 1;
constexpr double kInnerPasses = 2, kGatedInnerPasses = 3;

Kernel kernel_of_experts(const FrameworkProfile& profile, const TimedExperts& timed, double load) {
  const int local = timed.experts / timed.ep;
  const double copies = load * timed.tokens * timed.top_k / timed.ep;
  const std::int64_t rows = std::max<std::int64_t>(1, std::llround(copies / local));
  const double activation = profile.pass_share * (timed.gated ? kGatedInnerPasses : kInnerPasses) *
                            kSixteenBits * copies * timed.ffn;
  const double permutation =
      kSixteenBits * (kCopyPasses * copies + kTokenPasses * timed.tokens) * timed.hidden;
  double bytes = activation + permutation;
  // Casts read the tokens' side of both products in 16 bits and write it in the precision. The cost
  // model divides bytes by memory_efficiency; for casts, cast_efficiency takes its place.
  if (is_quantized(timed.precision))
    bytes += (kSixteenBits + bytes_of(timed.precision)) * copies * (timed.hidden + timed.ffn) *
             profile.memory_efficiency / timed.cast_efficiency;
  const std::int64_t inner = timed.gated ? 2 * timed.ffn : timed.ffn;
  return {.gemms = {{.batch = local, .m = rows, .n = inner, .k = timed.hidden},
                    {.batch = local, .m = rows, .n = timed.hidden, .k = timed.ffn}},
          .memory_bytes = bytes};
}

double expert_residual(const FrameworkProfile& profile, const TimedExperts& timed) {
  return std::log(experts_s(profile, timed, 1) / timed.measured_s);
}

std::vector<double> expert_residuals(const FrameworkProfile& profile,
                                     const std::vector<TimedExperts>& rows) {
  std::vector<double> all;
  for (const TimedExperts& timed : rows) all.push_back(expert_residual(profile, timed));
  return all;
}

// Returns the GPU as it is where nothing else runs: at full clocks.
DeviceSpec alone(DeviceSpec device) {
  device.training_clock = 1;
  for (auto& [precision, gemms] : device.own_gemms) gemms.training_clock = 1;
  return device;
}

}  // namespace

Result<std::vector<TimedExperts>> read_experts(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  std::vector<TimedExperts> all;
  for (int row = 0; row < table.size(); ++row) {
    TimedExperts timed{.gpu = std::string(table.text(row, "gpu")),
                       .precision = std::string(table.text(row, "precision"))};
    if (timed.precision == "fp8_block") timed.precision = "fp8";
    if (all.empty() || all.back().gpu != timed.gpu) {
      const auto device = load_device(timed.gpu);
      if (!device.ok()) return table.error(row, device.error().text());
      timed.device = alone(*device);
      ASSIGN_OR_RETURN(const FrameworkProfile training, load_framework_profile(device->profile));
      timed.cast_efficiency = training.cast_efficiency;
    } else {
      timed.device = all.back().device;
      timed.cast_efficiency = all.back().cast_efficiency;
    }
    if (!timed.device.flops_per_s.contains(timed.precision))
      return table.error(
          row, fmt::format("found precision '{}', expected one of the GPU's", timed.precision));
    for (const auto& [column, place] : {std::pair{"tokens", &timed.tokens},
                                        {"hidden", &timed.hidden},
                                        {"ffn", &timed.ffn},
                                        {"experts", &timed.experts},
                                        {"top_k", &timed.top_k},
                                        {"ep", &timed.ep}}) {
      ASSIGN_OR_RETURN(const std::int64_t value, table.integer(row, column));
      if (value < 1 || value > kMostOfAnySize)
        return table.error(row, fmt::format("column '{}': expected an integer above 0", column));
      *place = static_cast<int>(value);
    }
    timed.gated = table.text(row, "gated") == "yes";
    if (table.text(row, "routing") != "even") {
      ASSIGN_OR_RETURN(timed.power, table.number(row, "routing"));
    }
    ASSIGN_OR_RETURN(const double us, table.number(row, "time_us"));
    timed.measured_s = us * 1e-6;
    if (timed.experts % timed.ep != 0 || !(us > 0))
      return table.error(row, "expected experts that ep divides, and a time above 0");
    all.push_back(std::move(timed));
  }
  return all;
}

double experts_s(const FrameworkProfile& profile, const TimedExperts& timed, double load) {
  return to_seconds(
      kernel_ns({.device = timed.device, .precision = timed.precision, .profile = profile},
                kernel_of_experts(profile, timed, load)));
}

const std::vector<FittedConstant<FrameworkProfile>>& expert_constants() {
  using Profile = FrameworkProfile;
  // The numbers: the key's unit, then start, step, least and most in that unit.
  static const std::vector<FittedConstant<Profile>> kConstants = {
      {"grouped_launch_us", [](Profile& p) -> double& { return p.grouped_launch_s; }, 1e-6, 20, 5,
       0, 100},
      {"grouped_compute", [](Profile& p) -> double& { return p.grouped_compute; }, 1, 0.7, 0.1, 0,
       2},
      {"grouped_operands", [](Profile& p) -> double& { return p.grouped_operands; }, 1, 0.7, 0.1, 0,
       2},
      {"expert_gemm_us", [](Profile& p) -> double& { return p.expert_gemm_s; }, 1e-6, 0.2, 0.1, 0,
       20}};
  return kConstants;
}

FrameworkProfile fit_experts(const std::vector<TimedExperts>& even) {
  return fit_to(FrameworkProfile{}, even, expert_constants(), expert_residuals);
}

std::vector<double> unseen_experts(const std::vector<TimedExperts>& even) {
  std::vector<std::array<int, 4>> shapes;
  for (const TimedExperts& timed : even) shapes.push_back(timed.shape());
  std::ranges::sort(shapes);
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  const auto part_of = [&](const TimedExperts& timed) {
    return (std::ranges::find(shapes, timed.shape()) - shapes.begin()) % kParts;
  };
  std::vector<double> all(even.size());
  for (int part = 0; part < kParts; ++part) {
    std::vector<TimedExperts> others;
    for (const TimedExperts& timed : even)
      if (part_of(timed) != part) others.push_back(timed);
    const FrameworkProfile fit = fit_experts(others);
    for (std::size_t i = 0; i < even.size(); ++i)
      if (part_of(even[i]) == part) all[i] = expert_residual(fit, even[i]);
  }
  return all;
}

}  // namespace tandem
