// Recipe: in which form linear layers multiply where that is not the plan's 16 or 32 bits, and what
// the form costs: casts, scales, copies.
#pragma once

#include <optional>

#include "base/units.h"
#include "workload/model/plan.h"

namespace tandem {

// As Transformer Engine trains (its user guide, "Low precision training"): a linear layer's three
// products have both operands quantized. An array is needed row by row in one of them and column by
// column in another one, so that it is kept in both forms. Embedding, head, router, norms and
// attention's core stay in 16 bits.
struct Recipe {
  double number_bytes;  // of a quantized number, with its part of the scales
  double amax_bytes;    // of a number, read for the scale before it is quantized
  bool norm_quantizes;  // a norm writes its output quantized, and no pass of its own casts it
  // The largest numbers are reduced over ranks: those of all tensors behind each pass, for scales
  // of passes to come; or an array's own, before it is gathered along the sequence.
  bool reduces_passes = false, reduces_gathered = false;
  // And of the weights before they are gathered quantized: bytes a weight, and bytes a number.
  double weight_amax_bytes = 0, amax_bytes_per_number = 0;

  double copies_bytes() const { return 2 * number_bytes; }
  // Of a number in 16 bits that is quantized into both forms: what is read and written.
  double cast_bytes() const { return amax_bytes + 2 + copies_bytes(); }
};

// Of a largest number: fp32.
constexpr Bytes kAmaxBytes = 4;

// Nothing: all is in the plan's precision.
std::optional<Recipe> recipe_of(const Plan& plan);

}  // namespace tandem
