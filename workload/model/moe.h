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
  bool overlaps_shared = true;
  // The busiest rank's bytes, divided by the mean rank's: `load` in the mean exchange, whose bytes
  // stand below, and `peak_load` in the largest one. Both are 1 for an all-gather.
  double load = 1, peak_load = 1;
  // Bytes to the experts. All-to-all: what the busiest rank holds for all others, top_k copies of
  // its tokens. DeepEP and HybridEP: one copy for each destination. All-gather: the
  // tokens of all ranks.
  Bytes sent_bytes = 0;
  Bytes returned_bytes = 0;  // the same copies on their way back
  // Bytes gathered over the tensor group before the experts, and scattered behind them. 0: experts
  // are not cut.
  Bytes tensor_bytes = 0;
};
// Returns one GPU and no bytes for a layer without experts.
ExpertGroup expert_group(const Model& model, const Plan& plan);

// Cost of an exchange's kernel beyond that of the links: a launch, and a limit on its rate.
struct ExchangeKernel {
  double launch_s = 0, bytes_per_s = 0;
};
// Returns the kernel of an exchange, or nothing for NCCL's collectives and where rates are unknown.
//
// DeepEP's kernel is limited by how fast its SMs copy (deepep_kernel) and, between nodes, by
// NVLink; HybridEP's by NVLink alone. Between nodes a token goes once to each node, to the GPU in
// the sender's place (first leg), and from there over NVLink to each GPU that has one of its
// experts (second leg); it returns the same way and is summed on the way. An exchange counts the
// bytes of the first leg, and bytes_per_s is the rate of these bytes if the second leg is the
// bottleneck.
std::optional<ExchangeKernel> exchange_kernel(const Model& model, const Plan& plan,
                                              const ClusterSpec& cluster);

// Mean copies of a token: `nodes` leave its GPU, one for each node with its experts (the own one
// included); `gpus` go from a node's first GPU to the GPUs with its experts, on all nodes together.
struct TokenCopies {
  double nodes = 0, gpus = 0;
};
TokenCopies copies_over_nodes(const Model& model, const Plan& plan);

// Returns DeepEP's kernel for copies of so many bytes each.
ExchangeKernel deepep_kernel(const DeviceSpec& device, int sms, double copy_bytes);

// Bytes of a number in fp8, with one fp32 scale for 128 of them (DeepSeek-V3's blockwise fp8).
constexpr double kFp8CopyBytes = 1 + 4.0 / 128;

// Returns on how many of `places` (GPUs or nodes with equally many experts) the top_k experts of a
// token lie, in the mean over random choices. A place is missed if all draws, without replacement,
// miss it. Example: 2 of 4 experts on 2 places lie on 5/3 places.
double places_of_token(int experts, int top_k, int places);

// Adds the forward: norm and router; the tokens' dispatch, with the shared expert beside it; where
// experts are cut, the all-gather of what arrived; the experts; the reduce-scatter; the
// combination; the addition. `shared` may be null.
void experts_forward(PricedPass* pass, const Parts& experts, const Parts* shared,
                     const ExpertGroup& group, const BlockComm& comm);

// The kernels of the backward. `weight` is null if weight gradients have a pass of their own.
struct ExpertGradients {
  const Parts& input;
  const Parts* weight;
  const Parts* shared_input;  // null: no shared expert
  const Parts* shared_weight;
};

// Adds the backward, the forward's mirror image: the combination's gradients go out to the experts,
// with the shared expert beside them; then come the experts' gradients; the dispatch's come back.
void experts_backward(PricedPass* pass, const ExpertGradients& gradients, const ExpertGroup& group,
                      const BlockComm& comm);

}  // namespace tandem
