// A mixture of experts as steps: tokens go to the GPUs that hold their experts, and come back.
#pragma once

#include "workload/model/split_block.h"

namespace tandem {

// The expert-parallel group, and the tensor group that shares an expert.
struct ExpertGroup {
  int size = 1;
  std::int16_t sms = 0;
  Dispatcher dispatcher = Dispatcher::AllToAll;
  bool delays_wgrad = false;
  // All-to-all: what the busiest rank holds for all, top_k copies of its tokens; of DeepEP's and
  // HybridEP's one copy a destination. All-gather: the tokens of all.
  Bytes sent_bytes = 0;
  // RunEnd over the tensor group before the experts, and scattered behind them: 0 where experts
  // are not cut.
  Bytes tensor_bytes = 0;
};
ExpertGroup expert_group(const Model& model, const Plan& plan);

// Norm and router; the tokens' dispatch, and the shared expert beside it; where experts are cut,
// the all-gather of what arrived; the experts; the reduce-scatter; the combination; the addition.
// `shared` null: none.
void experts_forward(PricedPass* pass, const Parts& experts, const Parts* shared,
                     const ExpertGroup& group, const BlockComm& comm);

// The kernels of the backward; `weight` null: it has a pass of its own.
struct ExpertGradients {
  const Parts& input;
  const Parts* weight;
  const Parts* shared_input;  // null: no shared expert
  const Parts* shared_weight;
};

// The forward's mirror: the combination's gradients go out to the experts, with the shared expert
// beside; then theirs, and the dispatch's come home.
void experts_backward(PricedPass* pass, const ExpertGradients& gradients, const ExpertGroup& group,
                      const BlockComm& comm);

}  // namespace tandem
