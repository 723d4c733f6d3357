// FrameworkProfile: what a training framework, on the GPUs and hosts that it was measured on, makes
// of the work: the constants of the analytic cost model.
//
// They are data, workload/frameworks/NAME.toml, each number with its source; `tandem-fit published`
// fits them. None belongs to a model or to a run. The defaults here are those of the
// fit's first guess, for callers without a file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/toml/sourced_file.h"

namespace tandem {

struct FrameworkProfile {
  std::string name;

  // How much longer a product takes in which a row of an operand is no multiple of 16 bytes.
  double unaligned_gemm = 1;
  // What a product of one expert takes beside its tiles, where each is a kernel of its own.
  double expert_gemm_s = 0;
  // What kernels of Mamba-2 scans (mamba_ssm's, Triton's) reach of their products, whatever the
  // GPU: they have small tiles and do more than products. 0: not known, as any other product.
  double scan_flops_per_s = 0;
  // What its fused attention reaches of the GPU's best (DeviceSpec::attention_efficiency):
  // Triton's, FlashAttention 2's on GPUs after the A100.
  double attention_share = 1;
  double compute_stretch = 1;  // of all kernels: a slower release of the same software
  // The spread of nodes' speeds, a standard deviation: a step waits for the slowest node.
  double node_spread = 0;

  // Memory-bound passes.
  double memory_efficiency = 0.85;  // what long streams reach of the data sheet's bandwidth
  double pass_share = 0.86;         // of the counted passes: fusion and the L2 cache spare the rest
  // Passes over the attention matrix, unfused: scale, mask, softmax, dropout.
  double matrix_passes = 6.7;
  double matrix_passes_backward = 6.25;
  double cross_entropy_bytes = 18;  // a logit, forward and backward
  double accumulation_bytes = 3.7;  // a parameter and microbatch: weight gradients added up
  double optimizer_bytes = 58;      // a parameter: Adam in mixed precision, unscale, norm, clip

  // What the CPU takes to issue a layer's kernels; more under tensor parallelism, and with tp >= 8.
  double forward_launch_s = 1.16e-3;
  double backward_launch_s = 0.91e-3;
  double tensor_launch_s = 0.10e-3;
  double wide_tensor_launch_s = 0.29e-3;
  // Of a mixture of experts, beside: the router, the permutation, and waiting for the counts of
  // tokens that the device has found.
  double expert_launch_s = 0;
  double iteration_overhead_s = 0;  // of an iteration: data, timers, logging

  // Communication, against what nccl-tests measure: bytes take so many times as long, and every
  // operation so much longer. Tensor: inside a node. The others: between nodes.
  double tensor_stretch = 1;
  double partial_tensor_stretch = 1;  // of tensor's, in groups that do not fill a node
  double tensor_overhead_s = 0;
  double pipeline_stretch = 1;
  double pipeline_overhead_s = 0;
  double data_stretch = 1;
  double zero3_stretch = 1;  // of data, where ZeRO-3 gathers parameters layer by layer

  // The 90 % interval of an iteration over its prediction: from the residuals of rows that a fit
  // left out. 0: not known.
  double interval_low = 0, interval_high = 0;

  // The kinds of those rows (kind_of_run): its own file's, not its base's.
  std::vector<std::string> measured_on;
  double measured_gpus = 0;  // of the largest of those runs

  bool operator==(const FrameworkProfile&) const = default;
};

// "H100-SXM5-80GB fp8", or "H100-SXM5-80GB fp8 experts" of a model with a mixture of experts. Runs
// of one kind say nothing of another: fp16 and bf16 have one peak, but who runs in the one runs
// other releases with other options; and dense rows know nothing of routers, exchanges and grouped
// products.
std::string kind_of_run(const std::string& gpu, const std::string& precision, bool experts);

// Whether rows of the profile's own are of that kind.
bool is_measured(const FrameworkProfile& profile, const std::string& kind);

// Whether a job is more than ten times as large as any of those runs.
bool is_beyond(const FrameworkProfile& profile, int gpus);

// The 90 % interval of a prediction that no such rows stand behind:
// workload/uncalibrated.toml.
Result<std::pair<double, double>> uncalibrated_interval();
std::string uncalibrated_path();

// A constant's key in files, and what one of its units is.
struct ProfileField {
  const char* key;
  double FrameworkProfile::*place;
  double unit = 1;
};
std::span<const ProfileField> profile_fields();

// Values in place of those of files, in the keys' units: by the file's name and the key.
using ProfileValues = std::map<std::pair<std::string, std::string>, double>;

// `name` of workload/frameworks, or a file's path. A file names another one with
// `base` and holds what differs from it, or holds all. Errors name file and line.
Result<FrameworkProfile> load_framework_profile(const std::string& name,
                                                const ProfileValues& instead = {});

// How much longer the slowest of so many nodes takes than their mean: 1 + node_spread sqrt(2 ln n),
// the largest of n normal variables (Gumbel, Statistics of Extremes, section 4.2.3).
double slowest_of(int nodes, const FrameworkProfile& profile);

// The file of a name that is known.
std::string framework_profile_path(const std::string& name);

// Sorted.
std::vector<std::string> framework_profile_names();

// Where each number comes from: {"gemm_ramp_k", "fit ..."}; those of its base follow.
Result<Sources> profile_sources(const std::string& name);

}  // namespace tandem
