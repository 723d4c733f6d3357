// A block part by part, as steps: its products with the tensor group's collectives, and between
// them attention's core or the activation.
#pragma once

#include "workload/model/blocks.h"
#include "workload/model/context.h"
#include "workload/model/tensor_overlap.h"

namespace tandem {

// How the collectives of a block's two products overlap with them.
struct BlockGemms {
  GemmOverlap in_fprop, in_dgrad, in_wgrad, out_fprop, out_dgrad;
};
BlockGemms attention_gemms(const Plan& plan);
BlockGemms mlp_gemms(const Plan& plan);

// Settings of a block's steps besides its kernels.
struct BlockComm {
  TensorGroup tensor;
  ContextGroup context;
  BlockGemms gemms;
  Bytes qkv_bytes = 0;  // of all ranks' Q, K and V, gathered behind their product; 0: not
};

// Adds the steps from the first product to the second one.
void products_forward(PricedPass* pass, const Parts& parts, const BlockComm& comm);
// Adds those from the second product's gradients to the first one's. `weight` null: the weights'
// gradients have a pass of their own.
void products_backward(PricedPass* pass, const Parts& input, const Parts* weight,
                       const BlockComm& comm);

// Adds the whole block, with its norm and its addition.
void block_forward(PricedPass* pass, const Parts& parts, const BlockComm& comm);
void block_backward(PricedPass* pass, const Parts& input, const Parts* weight,
                    const BlockComm& comm);

}  // namespace tandem
