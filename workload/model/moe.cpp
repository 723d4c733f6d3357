// Computes how many bytes an exchange of tokens moves and how fast its kernel can be, and puts
// experts and exchanges into a pass.
#include "workload/model/moe.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

// Direction of tokens: to the experts, or back.
enum class Direction { Out, Back };

CommKind comm_kind(Dispatcher dispatcher, Direction direction) {
  if (dispatcher != Dispatcher::AllGather) return CommKind::AllToAll;
  return direction == Direction::Out ? CommKind::AllGather : CommKind::ReduceScatter;
}

// Adds an exchange that starts after the pass's last step, and that the steps added next do not
// wait for. Returns its step, or the chain's last step if all experts are on this GPU.
int exchange(PricedPass* pass, const ExpertGroup& group, Direction direction) {
  if (group.size == 1) return pass->last();
  const Bytes bytes = direction == Direction::Out ? group.sent_bytes : group.returned_bytes;
  return pass->beside(GroupKind::Expert, comm_kind(group.dispatcher, direction), bytes,
                      {.sms = group.sms}, pass->after_last());
}

// Returns on how many places a token's experts lie if the router first picks router_topk_groups of
// router_groups groups, and then the experts in these. Example: with 4 of 8 groups, a token's
// experts are among half of all experts, on half of the places.
double places_of_groups(const Model& model, int places) {
  const int groups = std::max(model.router_groups, 1),
            taken = std::max(model.router_topk_groups, 1);
  return places_of_token(model.experts / groups * taken, model.top_k,
                         std::max(1, (places * taken + groups - 1) / groups));
}

// Returns how many copies of a token leave a GPU.
double copies_of_token(const Model& model, const Plan& plan) {
  switch (plan.dispatcher) {
    case Dispatcher::AllToAll:
      return model.top_k;
    case Dispatcher::AllGather:
      return plan.ep;
    case Dispatcher::DeepEp:
    case Dispatcher::HybridEp:
      return places_of_groups(model, plan.expert_nodes > 1 ? plan.expert_nodes : plan.ep);
  }
  CHECK(false);
  return 0;
}

// SMs that DeepEP takes by default (its Buffer.num_sms).
constexpr int kDeepEpSms = 20;

// Rate of DeepEP's SMs between nodes, relative to that inside one: 0.8 to dispatch, 0.67 to
// combine, alike on 2 and 4 nodes of H100s (aiconfigurator's table of DeepEP, 8192 tokens and
// more). 0.75 is taken for both.
constexpr double kSmRateOverNodes = 0.75;

int exchange_sms(const Plan& plan) {
  const bool is_unset = plan.expert_sms == 0;
  return is_unset && plan.dispatcher == Dispatcher::DeepEp ? kDeepEpSms : plan.expert_sms;
}

// Adds a collective of the tensor ranks that share an expert; none if experts are not cut.
void over_tensor_group(PricedPass* pass, CommKind kind, const ExpertGroup& group) {
  if (group.tensor_bytes > 0) pass->communicate_among_experts(kind, group.tensor_bytes);
}

}  // namespace

double places_of_token(int experts, int top_k, int places) {
  double missed = 1;
  for (int i = 0; i < top_k; ++i)
    missed *= std::max(0.0, experts - static_cast<double>(experts) / places - i) / (experts - i);
  return places * (1 - missed);
}

ExchangeKernel deepep_kernel(const DeviceSpec& device, int sms, double copy_bytes) {
  const double copy_s = device.deepep_copy_s + copy_bytes / device.deepep_sm_bytes_per_s;
  return {device.deepep_launch_s, sms * copy_bytes / copy_s};
}

TokenCopies copies_over_nodes(const Model& model, const Plan& plan) {
  return {places_of_groups(model, plan.expert_nodes), places_of_groups(model, plan.ep)};
}

std::optional<ExchangeKernel> exchange_kernel(const Model& model, const Plan& plan,
                                              const ClusterSpec& cluster) {
  const Model& layer = expert_layer(model);
  const DeviceSpec& device = cluster.device;
  const bool deepep = plan.dispatcher == Dispatcher::DeepEp;
  const bool is_nccl = !deepep && plan.dispatcher != Dispatcher::HybridEp;
  if (!layer.is_moe() || is_nccl) return std::nullopt;
  ExchangeKernel kernel;
  if (deepep && device.deepep_sm_bytes_per_s > 0) {
    const double copy_bytes = static_cast<double>(stored_bytes(plan)) * layer.expert_hidden();
    kernel = deepep_kernel(device, exchange_sms(plan), copy_bytes);
  }
  if (plan.expert_nodes > 1 && plan.ep > plan.expert_nodes) {
    // A token goes to one GPU of each node (copies.nodes copies, the first leg), and from there to
    // the node's GPUs with its experts (copies.gpus copies, the second leg). Both rates below are
    // of the first leg's bytes. Example: ep = 16 on 2 nodes, 8 of 256 experts a token: 2.0 copies
    // in the first leg, 6.5 in the second.
    const TokenCopies copies = copies_over_nodes(layer, plan);
    // NVLink carries the second leg. One of a node's 8 GPUs has the token already, so 7/8 of the
    // 6.5 copies cross NVLink: the first leg goes at 2.0 / 6.5 of 8/7 of NVLink's rate.
    const double node_gpus = static_cast<double>(plan.ep) / plan.expert_nodes;
    const double nvlink_rate = cluster.intra_bytes_per_s * cluster.intra_efficiency *
                               cluster.alltoall_efficiency * node_gpus / (node_gpus - 1);
    // DeepEP's SMs carry both legs: the first leg goes at 2.0 / 8.5 of their rate between nodes.
    const double sm_rate =
        kSmRateOverNodes * kernel.bytes_per_s * copies.nodes / (copies.nodes + copies.gpus);
    kernel.bytes_per_s = nvlink_rate * copies.nodes / copies.gpus;
    if (sm_rate > 0) kernel.bytes_per_s = std::min(kernel.bytes_per_s, sm_rate);
  }
  if (kernel.bytes_per_s == 0) return std::nullopt;
  return kernel;
}

ExpertGroup expert_group(const Model& model, const Plan& plan) {
  if (!model.is_moe()) return {};
  // Megatron-LM gathers all tokens over the ranks of an expert, too, before it takes those of its
  // own experts (MoEAllGatherTokenDispatcher in megatron/core/transformer/moe/token_dispatcher.py
  // at d98e8a64), so no routing changes the bytes.
  const bool takes_all = plan.dispatcher == Dispatcher::AllGather;
  const double load = takes_all ? 1 : expert_load(model, plan);
  const auto bytes_of_copies = [&](double copies) {
    return std::llround(static_cast<double>(routed_tokens(model, plan)) * copies * load *
                        model.expert_hidden()) *
           static_cast<Bytes>(stored_bytes(plan));
  };
  const Bytes returned = bytes_of_copies(copies_of_token(model, plan));
  const Bytes arriving = takes_all ? returned : bytes_of_copies(model.top_k);
  const double sent_share = plan.fp8_dispatch ? kFp8CopyBytes / stored_bytes(plan) : 1;
  return {.size = plan.ep,
          .sms = static_cast<std::int16_t>(exchange_sms(plan)),
          .dispatcher = plan.dispatcher,
          .delays_wgrad = plan.delay_wgrad,
          .overlaps_shared = plan.shared_expert_overlap,
          .load = load,
          .peak_load = takes_all ? 1 : peak_expert_load(model, plan),
          .sent_bytes = std::llround(sent_share * static_cast<double>(returned)),
          .returned_bytes = returned,
          .tensor_bytes = plan.expert_tensor() > 1 ? arriving * plan.expert_tensor() : 0};
}

void experts_forward(PricedPass* pass, const Parts& experts, const Parts* shared,
                     const ExpertGroup& group, const BlockComm& comm) {
  pass->run(experts.norm);
  if (shared && !group.overlaps_shared) products_forward(pass, *shared, comm);
  const int arrived = exchange(pass, group, Direction::Out);
  if (shared && group.overlaps_shared) products_forward(pass, *shared, comm);
  const int shared_done = pass->last();
  pass->follow(arrived);
  over_tensor_group(pass, CommKind::AllGather, group);
  pass->run(experts.in);
  pass->run(experts.between);
  pass->run(experts.out);
  over_tensor_group(pass, CommKind::ReduceScatter, group);
  pass->follow(exchange(pass, group, Direction::Back));
  pass->run(experts.residual, {shared_done});
}

void experts_backward(PricedPass* pass, const ExpertGradients& gradients, const ExpertGroup& group,
                      const BlockComm& comm) {
  const auto& [input, weight, shared_input, shared_weight] = gradients;
  pass->run(input.residual);
  const int arrived = exchange(pass, group, Direction::Out);
  if (shared_input && group.overlaps_shared)
    products_backward(pass, *shared_input, shared_weight, comm);
  int shared_done = pass->last();  // the norm's gradient waits for this step
  pass->follow(arrived);
  over_tensor_group(pass, CommKind::AllGather, group);
  pass->run(input.out);
  const bool runs_wgrad = weight != nullptr && !group.delays_wgrad;
  const bool delays_wgrad = weight != nullptr && group.delays_wgrad;
  if (runs_wgrad) pass->run(weight->out);
  pass->run(input.between);
  pass->run(input.in);
  if (runs_wgrad) pass->run(weight->in);
  over_tensor_group(pass, CommKind::ReduceScatter, group);
  const int returned = exchange(pass, group, Direction::Back);
  if (delays_wgrad) pass->run(weight->out);
  if (delays_wgrad) pass->run(weight->in);
  pass->follow(returned);
  if (shared_input && !group.overlaps_shared) {
    products_backward(pass, *shared_input, shared_weight, comm);
    shared_done = pass->last();
  }
  pass->run(input.norm, {shared_done});
  if (weight) pass->run(weight->norm);
}

}  // namespace tandem
