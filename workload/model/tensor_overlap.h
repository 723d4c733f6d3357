// A GEMM and the collective of its tensor group, as steps: one after the other, or beside each
// other by one of Transformer Engine's methods.
#pragma once

#include "workload/model/kernel_table.h"
#include "workload/model/model.h"

namespace tandem {

// A plan's tensor-parallel group, and the activation that its collectives move.
struct TensorGroup {
  int size = 1;
  bool sequence_parallel = false;  // only with more than one rank
  Bytes bytes = 0;                 // the whole array's
  Bytes amax_bytes = 0;            // all-reduced before a gather: its parts share one scale
  // Shares of `bytes` that gathers of quantized arrays move: inputs', and output gradients'.
  double input_share = 1, gradient_share = 1;
  double ring_hidden = 1;  // FrameworkProfile::ring_hidden

  Bytes of_inputs() const;
  Bytes of_gradients() const;
};
TensorGroup tensor_group(const Model& model, const Plan& plan);
// Returns the same for a layer's linear products, in the plan's recipe.
TensorGroup quantized_group(const Model& model, const Plan& plan, const FrameworkProfile& profile);

// gather() adds the all-gather of an array of `bytes` that is cut along the sequence; reduce() adds
// the sum of the ranks' summands, in 16 bits. Neither adds anything in a group of one.
void gather(PassBuilder* pass, const TensorGroup& group, Bytes bytes);
void reduce(PassBuilder* pass, const TensorGroup& group);

// Adds the gather, then the product. Pipelined: both in `splits` parts, and part i of the product
// waits for part i of the gather, so one part of the gather is exposed. Ring: each rank begins with
// the rows that it has and passes them on; piece i + 1 of the product waits for shift i of `size` -
// 1. What a ring does not hide of its bytes is gathered before it.
//
//   ring of 3   compute: piece 0 | piece 1 | piece 2
//               shifts:  ---0---> ---1--->
void gather_and_multiply(PricedPass* pass, const Kernel& product, const TensorGroup& group,
                         Bytes bytes, const GemmOverlap& overlap);

// Adds the product, then the reduction. Pipelined: part i of the reduce-scatter waits for part i of
// the product, so one part is exposed. Ring: the sum of a rank's rows goes round and each rank adds
// its piece; shift i waits for piece i, and the last piece is the rank's own.
void multiply_and_reduce(PricedPass* pass, const Kernel& product, const TensorGroup& group,
                         const GemmOverlap& overlap);

// Adds both gradients of a product whose input was gathered, and the reduction of the input's
// gradient. Bulk at dgrad: the saved input is gathered beside dgrad, and wgrad waits for that. Bulk
// at wgrad: the reduction runs beside wgrad. Pipelined or ring at dgrad: as in multiply_and_reduce.
// Off at dgrad: the gather is left out (it would run beside dgrad). `wgrad` null: it has a pass of
// its own.
void multiply_gradients(PricedPass* pass, const Kernel& dgrad, const Kernel* wgrad,
                        const TensorGroup& group, const GemmOverlap& at_dgrad,
                        const GemmOverlap& at_wgrad);

}  // namespace tandem
