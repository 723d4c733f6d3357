// A mixture of experts as steps: tokens go to the GPUs that hold their experts, and come back.
#pragma once

#include <optional>

#include "topology/cluster.h"
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
  Bytes returned_bytes = 0;  // of the same copies, on their way back
  // RunEnd over the tensor group before the experts, and scattered behind them: 0 where experts
  // are not cut.
  Bytes tensor_bytes = 0;
};
// Of a layer without experts: one GPU, and no bytes.
ExpertGroup expert_group(const Model& model, const Plan& plan);

// What the kernel of an exchange takes of it beside links: a launch, and a limit of its bytes.
// Nothing: NCCL's collectives, or no rates known.
struct ExchangeKernel {
  double launch_s = 0, bytes_per_s = 0;
};
// DeepEP's: its SMs' time for the copies, which exchanges in 16 bits state. Over nodes a token goes
// once to each node, to the GPU in the sender's place, and from there over NVLink to each GPU that
// has an expert of it (home the same way, summed on the way): an exchange's bytes are those of the
// first, and the limit is what SMs and NVLink leave of them, as they carry the second. HybridEP's:
// NVLink's alone.
std::optional<ExchangeKernel> exchange_kernel(const Model& model, const Plan& plan,
                                              const ClusterSpec& cluster);

// Copies of a token that leave a GPU over the network and the node's links together, and on their
// way from the nodes' first GPUs to those with its experts, the sender's own included; in the mean.
struct TokenCopies {
  double nodes = 0, gpus = 0;
};
TokenCopies copies_over_nodes(const Model& model, const Plan& plan);

// The same of copies of so many bytes each.
ExchangeKernel deepep_kernel(const DeviceSpec& device, int sms, double copy_bytes);

// Of a number in fp8, with one fp32 scale for 128 of them (DeepSeek-V3's blockwise fp8).
constexpr double kFp8CopyBytes = 1 + 4.0 / 128;

// Of `places` with equally many of the experts, those that a token's top_k ones lie on, in the
// mean: each is missed by a draw without replacement.
double places_of_token(int experts, int top_k, int places);

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
