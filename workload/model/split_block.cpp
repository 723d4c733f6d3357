// Runs a block's parts in order, with the collectives and the attention core between them.
#include "workload/model/split_block.h"

namespace tandem {

BlockGemms attention_gemms(const Plan& plan) {
  return {.in_fprop = plan.overlap_of(TensorGemm::QkvFprop),
          .in_dgrad = plan.overlap_of(TensorGemm::QkvDgrad),
          .in_wgrad = plan.overlap_of(TensorGemm::QkvWgrad),
          .out_fprop = plan.overlap_of(TensorGemm::ProjFprop),
          .out_dgrad = plan.overlap_of(TensorGemm::ProjDgrad)};
}

BlockGemms mlp_gemms(const Plan& plan) {
  return {.in_fprop = plan.overlap_of(TensorGemm::Fc1Fprop),
          .in_dgrad = plan.overlap_of(TensorGemm::Fc1Dgrad),
          .in_wgrad = plan.overlap_of(TensorGemm::Fc1Wgrad),
          .out_fprop = plan.overlap_of(TensorGemm::Fc2Fprop),
          .out_dgrad = plan.overlap_of(TensorGemm::Fc2Dgrad)};
}

void products_forward(PricedPass* pass, const Parts& parts, const BlockComm& comm) {
  gather_and_multiply(pass, parts.in, comm.tensor, comm.tensor.of_inputs(), comm.gemms.in_fprop);
  if (comm.qkv_bytes > 0) pass->communicate(GroupKind::Tensor, CommKind::AllGather, comm.qkv_bytes);
  if (parts.core.empty())
    pass->run(parts.between);
  else
    attend(pass, parts.between, parts.core, comm.context);
  multiply_and_reduce(pass, parts.out, comm.tensor, comm.gemms.out_fprop);
}

void products_backward(PricedPass* pass, const Parts& input, const Parts* weight,
                       const BlockComm& comm) {
  gather_and_multiply(pass, input.out, comm.tensor, comm.tensor.of_gradients(),
                      comm.gemms.out_dgrad);
  if (weight) pass->run(weight->out);
  if (input.core.empty())
    pass->run(input.between);
  else
    attend_backward(pass, input.between, input.core, comm.context);
  if (comm.qkv_bytes > 0)
    pass->communicate(GroupKind::Tensor, CommKind::ReduceScatter, comm.qkv_bytes);
  multiply_gradients(pass, input.in, weight ? &weight->in : nullptr, comm.tensor,
                     comm.gemms.in_dgrad, comm.gemms.in_wgrad);
}

void block_forward(PricedPass* pass, const Parts& parts, const BlockComm& comm) {
  pass->run(parts.norm);
  products_forward(pass, parts, comm);
  pass->run(parts.residual);
}

void block_backward(PricedPass* pass, const Parts& input, const Parts* weight,
                    const BlockComm& comm) {
  pass->run(input.residual);
  products_backward(pass, input, weight, comm);
  pass->run(input.norm);
}

}  // namespace tandem
