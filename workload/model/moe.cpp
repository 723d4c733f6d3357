#include "workload/model/moe.h"

#include <cmath>

namespace tandem {
namespace {

// The all-to-all, after the chain's last step; the chain's last step where all experts are here.
int exchange(PricedPass* pass, const ExpertGroup& group) {
  if (group.size == 1) return pass->last();
  return pass->beside(GroupKind::Expert, CommKind::AllToAll, group.sent_bytes, {.sms = group.sms},
                      pass->after_last());
}

void over_tensor_group(PricedPass* pass, CommKind kind, const ExpertGroup& group) {
  if (group.tensor_bytes > 0) pass->communicate(GroupKind::Tensor, kind, group.tensor_bytes);
}

}  // namespace

ExpertGroup expert_group(const Model& model, const Plan& plan) {
  const double copies = static_cast<double>(routed_tokens(model, plan)) * model.top_k;
  const Bytes sent = std::llround(copies * expert_load(model, plan) * model.expert_hidden()) *
                     static_cast<Bytes>(stored_bytes(plan));
  return {.size = plan.ep,
          .sms = static_cast<std::int16_t>(plan.expert_sms),
          .sent_bytes = sent,
          .tensor_bytes = plan.expert_tensor() > 1 ? sent * plan.expert_tensor() : 0};
}

void experts_forward(PricedPass* pass, const Parts& experts, const Parts* shared,
                     const ExpertGroup& group, const BlockComm& comm) {
  pass->run(experts.norm);
  const int arrived = exchange(pass, group);
  if (shared) products_forward(pass, *shared, comm);
  const int beside = pass->last();
  pass->follow(arrived);
  over_tensor_group(pass, CommKind::AllGather, group);
  pass->run(experts.in);
  pass->run(experts.between);
  pass->run(experts.out);
  over_tensor_group(pass, CommKind::ReduceScatter, group);
  pass->follow(exchange(pass, group));
  pass->run(experts.residual, {beside});
}

void experts_backward(PricedPass* pass, const ExpertGradients& gradients, const ExpertGroup& group,
                      const BlockComm& comm) {
  const auto& [input, weight, shared_input, shared_weight] = gradients;
  pass->run(input.residual);
  const int arrived = exchange(pass, group);
  if (shared_input) products_backward(pass, *shared_input, shared_weight, comm);
  const int beside = pass->last();
  pass->follow(arrived);
  over_tensor_group(pass, CommKind::AllGather, group);
  pass->run(input.out);
  if (weight) pass->run(weight->out);
  pass->run(input.between);
  pass->run(input.in);
  if (weight) pass->run(weight->in);
  over_tensor_group(pass, CommKind::ReduceScatter, group);
  pass->follow(exchange(pass, group));
  pass->run(input.norm, {beside});
  if (weight) pass->run(weight->norm);
}

}  // namespace tandem
