// A block part by part, as steps: its products with the tensor group's collectives, and attention's
// core or the activation between them.
#pragma once

#include "workload/model/blocks.h"
#include "workload/model/context.h"
#include "workload/model/tensor_overlap.h"

namespace tandem {

// A block's two products, by what their collectives are called.
struct BlockGemms {
  GemmOverlap in_fprop, in_dgrad, in_wgrad, out_fprop, out_dgrad;
};
BlockGemms attention_gemms(const Plan& plan);
BlockGemms mlp_gemms(const Plan& plan);

// What a block's steps depend on besides its kernels.
struct BlockComm {
  TensorGroup tensor;
  ContextGroup context;
  BlockGemms gemms;
  Bytes qkv_bytes = 0;  // of Q, K and V of all tensor ranks, gathered behind their product; 0: none
};

// From the first product to the second one.
void products_forward(PricedPass* pass, const Parts& parts, const BlockComm& comm);
// From the second product's gradients to the first one's; `weight` null: they have their own pass.
void products_backward(PricedPass* pass, const Parts& input, const Parts* weight,
                       const BlockComm& comm);

// The block, with its norm and its addition.
void block_forward(PricedPass* pass, const Parts& parts, const BlockComm& comm);
void block_backward(PricedPass* pass, const Parts& input, const Parts* weight,
                    const BlockComm& comm);

}  // namespace tandem
