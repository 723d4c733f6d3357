// Recipe: the quantized form (fp8, nvfp4) in which linear layers multiply, and its costs: casts,
// scales, copies.
#pragma once

#include <optional>

#include "base/units.h"
#include "workload/cost/kernel.h"
#include "workload/model/plan.h"

namespace tandem {

// A recipe of Transformer Engine (its user guide, "Low precision training") or torchao: a linear
// layer's three products have both operands quantized. An array is needed row by row in one of them
// and column by column in another, so it is kept in both forms. Embedding, head, router, norms and
// attention's core stay in 16 bits.
struct Recipe {
  double number_bytes;  // of a quantized number, with its part of the scales
  double amax_bytes;    // read of a number to find the scale, before it is quantized
  double rate = 1;      // of products, relative to those with a scale for each tensor
  // An array has one scale. Then GPUs whose fp8 products take arrays by row and by column need only
  // one form (FrameworkProfile::cast_forms).
  bool scales_tensor = false;
  bool norm_quantizes;  // a norm writes its output quantized, without another pass to cast it
  bool gathers_quantized = true;  // over the tensor group; otherwise in 16 bits
  // Amax: the largest absolute number of an array.
  // After each pass ranks all-reduce the amaxes of all tensors, for the scales of later passes.
  bool reduces_passes = false;
  // Ranks all-reduce an array's amax before they gather the array along the sequence.
  bool reduces_gathered = false;
  // Amax values of weights, reduced before the weights are gathered quantized: bytes for each
  // weight array, and bytes for each number.
  double weight_amax_bytes = 0, amax_bytes_per_number = 0;

  double copies_bytes() const { return 2 * number_bytes; }
  // Returns the bytes read and written to quantize a 16-bit number into all forms, scaled up
  // because casts are slower than other passes over memory.
  double cast_bytes(const FrameworkProfile& profile) const {
    const double forms = scales_tensor ? profile.cast_forms : 2;
    return profile.memory_efficiency / profile.cast_efficiency *
           (amax_bytes + 2 + forms * number_bytes);
  }
};

// Bytes of an amax: fp32.
constexpr Bytes kAmaxBytes = 4;

// Returns nullopt if linear layers multiply in 16 or 32 bits.
std::optional<Recipe> recipe_of(const Plan& plan);

// Says whether the plan multiplies in mxfp8 and the device's tensor cores do not have it.
bool lacks_mxfp8(const DeviceSpec& device, const Plan& plan);

// Returns the bytes of a linear layer's parameter on the wire where ZeRO gathers it.
double gathered_parameter_bytes(const Plan& plan);

}  // namespace tandem
