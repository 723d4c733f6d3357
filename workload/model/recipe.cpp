// The constants of each fp8 recipe and of NVFP4.
#include "workload/model/recipe.h"

#include "base/check.h"
#include "workload/model/model.h"

namespace tandem {
namespace {

// Bytes of scales for each number: one of fp32 for 128 numbers (DeepSeek-V3, arXiv 2412.19437,
// section 3.3.2); a byte for 32 (OCP Microscaling Formats 1.0); a byte for 16, and one scale for
// the whole array, for which its largest number is needed first (NVFP4, arXiv 2509.25149, section
// 2).
constexpr double kBlockwiseScale = 4.0 / 128;
constexpr double kMxScale = 1.0 / 32;
constexpr double kNvfp4Scale = 1.0 / 16;

// NVFP4's columns go through a Hadamard transform, and most numbers are read once more for the
// result's amax. Fitted: beside the other recipes' casts on a B300 (Transformer Engine's
// benchmarks/gemm/benchmark_gemm.py at 3329417) NVFP4's take as long as 3.4 + 2 + 2 x 0.5625 = 6.5
// bytes a number. One read for the amax (2 bytes) would make 5.1.
constexpr double kNvfp4Amax = 3.4;

// Products in MXFP8 take 7.161 ms where those with a scale for each tensor take 6.812: twelve GEMMs
// of a layer on a B300, in the same table.
constexpr double kMxRate = 0.95;

// Rows: one kernel reads each 16-bit number once, finds its row's amax and casts. Columns: another
// kernel reads each number twice, for its column's amax and to cast (torchao,
// float8/float8_linear.py). These are 3 reads of 2 bytes, of which cast_bytes() counts one already.
constexpr double kRowwiseAmax = 4;

// Set by Llama 3 8B on 8 H100s, which rowwise scales make 10 to 11.5 % faster than bf16, and one
// scale a tensor 25 % (torchao's float8 README; torchtitan at 7a04053). The products alone are as
// fast as others (validation/gpu/results/h100/torch), so casts that are not fused are in it, too.
constexpr double kRowwiseRate = 0.77;

// Blockwise weights have one largest number for each block of 128 x 128.
constexpr double kBlockAmax = static_cast<double>(kAmaxBytes) / (128 * 128);

Recipe fp8(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::Delayed:  // scales come from the largest numbers of earlier steps
      return {.number_bytes = 1,
              .amax_bytes = 0,
              .scales_tensor = true,
              .norm_quantizes = true,
              .reduces_passes = true,
              .weight_amax_bytes = kAmaxBytes};
    case Fp8Recipe::Current:
      return {.number_bytes = 1,
              .amax_bytes = 2,
              .scales_tensor = true,
              .norm_quantizes = false,
              .reduces_gathered = true,
              .weight_amax_bytes = kAmaxBytes};
    // A block of 128 or 32 numbers fits on the chip, so the cast that finds its amax reads it once.
    case Fp8Recipe::Blockwise:
      return {.number_bytes = 1 + kBlockwiseScale,
              .amax_bytes = 0,
              .norm_quantizes = false,
              .amax_bytes_per_number = kBlockAmax};
    case Fp8Recipe::Mxfp8:
      return {
          .number_bytes = 1 + kMxScale, .amax_bytes = 0, .rate = kMxRate, .norm_quantizes = false};
    case Fp8Recipe::Rowwise:
      return {.number_bytes = 1,
              .amax_bytes = kRowwiseAmax,
              .rate = kRowwiseRate,
              .norm_quantizes = false,
              .gathers_quantized = false};
  }
  CHECK(false);
  return {};
}

}  // namespace

std::optional<Recipe> recipe_of(const Plan& plan) {
  if (plan.precision == "fp8") return fp8(plan.fp8_recipe);
  if (plan.precision == "nvfp4")
    return Recipe{.number_bytes = 0.5 + kNvfp4Scale,
                  .amax_bytes = kNvfp4Amax,
                  .norm_quantizes = false,
                  .reduces_gathered = true};
  return std::nullopt;
}

bool lacks_mxfp8(const DeviceSpec& device, const Plan& plan) {
  return plan.precision == "fp8" && plan.fp8_recipe == Fp8Recipe::Mxfp8 &&
         !device.flops_per_s.contains("mxfp8");
}

// Megatron-LM gathers mxfp8 in 16 bits, in the gradients' buffer, and quantizes behind it; NVFP4
// packed, without scales (core/distributed/param_and_grad_buffer.py:1163 and 1183 at d98e8a64).
// ZeRO 1 uses that buffer (the distributed optimizer), ZeRO 2 and 3 do not (its FSDP).
// Parameters that a recipe does not quantize have buffers of their own, in 16 bits (:921).
double gathered_parameter_bytes(const Plan& plan) {
  if (!plan.fp8_param_gather || !is_quantized(plan.precision)) return stored_bytes(plan);
  if (plan.precision == "nvfp4") return 0.5;
  const bool stays_in_16_bits = plan.fp8_recipe == Fp8Recipe::Mxfp8 && plan.zero == 1;
  return stays_in_16_bits ? stored_bytes(plan) : 1;
}

}  // namespace tandem
