// ExpertFit: fits what a grouped GEMM of experts takes to times that others measured of the experts
// of one rank alone. One set of constants serves all GPUs and precisions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"
#include "validation/kernels/constant_fit.h"
#include "validation/published/published_checks.h"
#include "workload/cost/kernel_shape.h"
#include "workload/frameworks/framework_profile.h"

namespace tandem {

// The forward of one rank's experts: choice of the experts, cast, permutation, both products, the
// activation and the sum of a token's copies, without the router and the exchanges.
struct TimedExperts {
  std::string gpu;  // the name of its file
  DeviceSpec device;
  double cast_efficiency = 0;  // as in training on this GPU
  std::string precision;
  int tokens = 0;  // of all ranks, each of which holds them all
  int hidden = 0, ffn = 0, experts = 0, top_k = 0, ep = 0;
  bool gated = false;
  // Experts' numbers of tokens are drawn from a density of x^-power, such as x^-1.2, and the
  // busiest rank is timed. 0: all experts have equally many.
  double power = 0;
  double measured_s = 0;

  std::array<int, 4> shape() const { return {hidden, ffn, experts, top_k}; }  // the model's
};

// Reads experts.csv: gpu, precision (fp8_block is fp8 here), tokens, hidden, ffn, gated, experts,
// top_k, ep, routing (even, or the power), time_us. Errors name file and line.
Result<std::vector<TimedExperts>> read_experts(const std::string& path);

// Returns the time of the experts on a rank that gets `load` times the mean rank's tokens.
double experts_s(const FrameworkProfile& profile, const TimedExperts& timed, double load);

const std::vector<FittedConstant<FrameworkProfile>>& expert_constants();

// Fits the constants to rows with equal loads.
FrameworkProfile fit_experts(const std::vector<TimedExperts>& even);

// Returns log(predicted / measured) of each row, by a fit to rows of other shapes.
std::vector<double> unseen_experts(const std::vector<TimedExperts>& even);

}  // namespace tandem
