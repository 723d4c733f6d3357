// FrameworkProfile: the constants of the analytic cost model for a training framework, on the GPUs
// and hosts on which it was measured.
//
// They are data, workload/frameworks/NAME.toml, each number with its source; `tandem-fit published`
// fits them. None belongs to a model or to a run. The defaults here are the fit's first guess, for
// callers without a file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem {

struct FrameworkProfile {
  std::string name;
  std::string framework;  // a word of train.framework: whose buffers count for memory

  // Factor on a product's time if a row of an operand is no multiple of 16 bytes.
  double unaligned_gemm = 1;
  // The time of a grouped product (all experts of a GPU) is the sum of a launch, a time for each
  // expert, and these shares of the time of its tiles and of the time to read its operands. Tiles
  // of few rows do not hide their loads (validation/kernels/experts.csv).
  double grouped_launch_s = 21.45e-6, expert_gemm_s = 0.1381e-6;
  double grouped_compute = 0.7072, grouped_operands = 0.7671;
  // FLOP/s of the products in kernels of Mamba-2 scans (mamba_ssm's, Triton's), on any GPU. These
  // kernels have small tiles and do more than products. 0: unknown, priced as any other product.
  double scan_flops_per_s = 0;
  // Rate of the framework's fused attention relative to the GPU's best one
  // (DeviceSpec::attention_efficiency); below 1 for Triton's, and for FlashAttention 2 on GPUs
  // after the A100.
  double attention_share = 1;
  double compute_stretch = 1;  // on all kernels: a slower release of the same software

  // Memory-bound passes.
  double memory_efficiency = 0.85;  // of the data sheet's bandwidth, for long streams
  // Casts of quantized layers: their share of the data sheet's bandwidth, and how many forms of an
  // array with one scale they write: 2 (by rows and by columns), or 1 if the GPU can multiply
  // either.
  double cast_efficiency = 0.86, cast_forms = 2;
  double pass_share = 0.86;  // of the counted passes: fusion and the L2 cache spare the rest
  // Passes over the attention matrix, unfused: scale, mask, softmax, dropout.
  double matrix_passes = 6.7;
  double matrix_passes_backward = 6.25;
  double cross_entropy_bytes = 18;  // for each logit, forward and backward
  double accumulation_bytes = 3.7;  // for each parameter and microbatch: adding up weight gradients
  double optimizer_bytes = 58;  // for each parameter: Adam in mixed precision, unscale, norm, clip

  // Time that the CPU takes to issue a layer's kernels; the last two are added with tensor
  // parallelism: with tp below 8, and from 8 on.
  double forward_launch_s = 1.16e-3;
  double backward_launch_s = 0.91e-3;
  double tensor_launch_s = 0.10e-3;
  double wide_tensor_launch_s = 0.29e-3;
  // Added in a mixture of experts: the router, the permutation, and waiting until the device has
  // counted tokens.
  double expert_launch_s = 0;
  // Added to each iteration: for data, timers and logging, unless all of it is in CUDA graphs; and
  // for each doubling of the GPUs, even with CUDA graphs.
  double iteration_overhead_s = 0, rank_overhead_s = 0;
  // For each GPU that shards a layer and each of FSDP's gathers and reductions of it: the latency
  // of a step of its ring, which no compute hides.
  double shard_latency_s = 0;

  // Communication, relative to what nccl-tests measure: a stretch multiplies the time of bytes, an
  // overhead is added to each operation. Tensor: inside a node. The others: between nodes.
  double tensor_stretch = 1;
  double partial_tensor_stretch = 1;  // multiplies tensor_stretch in groups that do not fill a node
  double tensor_overhead_s = 0;
  // The share of a ring's bytes that is hidden beside a product; the rest is exposed before or
  // after.
  double ring_hidden = 1;
  // 1: linear layers gather and reduce beside their gradients by default, as in Transformer Engine.
  double bulk_gradients = 0;
  double pipeline_stretch = 1;
  double pipeline_overhead_s = 0;
  double data_stretch = 1;
  double zero3_stretch = 1;  // multiplies data_stretch if ZeRO-3 gathers parameters layer by layer

  // The 90 % interval of measured / predicted iteration time, from the residuals of rows that a fit
  // left out. 0: unknown.
  double interval_low = 0, interval_high = 0;
  double experts_low = 0, experts_high = 0;  // the same for mixtures of experts

  // The kinds of the measured rows, of its own file and not of its base: "H100-SXM5-80GB fp8
  // dense+tensor" (scenarios/evidence.h).
  std::vector<std::string> measured_on;
  double measured_gpus = 0;  // GPUs of the largest of those runs

  bool operator==(const FrameworkProfile&) const = default;
};

// Returns the path of workload/uncalibrated.toml: the intervals of predictions without such rows
// (scenarios/evidence.h).
std::string uncalibrated_path();

// A constant's key in files, and the value of one of its units.
struct ProfileField {
  const char* key;
  double FrameworkProfile::*place;
  double unit = 1;
};
std::span<const ProfileField> profile_fields();

// Values, in the keys' units, that replace those of files, by the file's name and the key.
using ProfileValues = std::map<std::pair<std::string, std::string>, double>;

// Loads `name` of workload/frameworks, or a file by its path. A file holds all constants, or names
// another file with `base` and holds those that differ. Errors name file and line.
Result<FrameworkProfile> load_framework_profile(const std::string& name,
                                                const ProfileValues& instead = {});

// Returns the files of a profile: its own, then its base's, and so on. None for the name "".
Result<std::vector<std::string>> framework_profile_files(const std::string& name);

// Returns the file of a known name.
std::string framework_profile_path(const std::string& name);

// Returns the known names, sorted.
std::vector<std::string> framework_profile_names();

}  // namespace tandem
