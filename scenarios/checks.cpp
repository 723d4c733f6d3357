#include "scenarios/checks.h"

#include <fmt/format.h>

#include <tuple>
#include <vector>

namespace tandem {

Status check_stragglers(const Scenario& s) {
  const Stragglers& slow = s.variability.stragglers;
  if (slow.any() && !s.places.contains("variability.straggler_factor"))
    return Error::of(
        {"variability.straggler_ranks", "variability.straggler_nodes",
         "variability.straggler_stages", "variability.straggler_share"},
        "found stragglers without variability.straggler_factor, expected how many times as "
        "long they take");
  const int node = s.costs.need_cluster() ? s.cluster.spec.gpus_per_node : 1;
  const std::tuple<const char*, const std::vector<int>*, int> lists[] = {
      {"variability.straggler_ranks", &slow.ranks, s.cluster.gpus},
      {"variability.straggler_nodes", &slow.nodes, (s.cluster.gpus + node - 1) / node},
      {"variability.straggler_stages", &slow.stages, s.job.plan.stages()}};
  for (const auto& [key, list, end] : lists) {
    for (const int number : *list) {
      if (number >= end)
        return Error::of(
            {key}, fmt::format("found {} with {}, expected numbers below {}", key, number, end));
    }
  }
  return Done{};
}

Status check_expert_keys(const Scenario& s) {
  if (s.job.model.is_moe() || s.places.contains("model.experts")) return Done{};
  for (const char* key :
       {"model.top_k", "model.router_groups", "model.router_topk_groups", "model.expert_ffn_hidden",
        "model.shared_expert_ffn", "model.moe_latent", "model.router_bias",
        "model.expert_imbalance", "model.routing", "model.capacity_factor", "model.pad_to_capacity",
        "parallel.dispatcher", "parallel.fp8_dispatch"}) {
    if (s.places.contains(key))
      return Error::of(
          {key}, fmt::format("found {} without model.experts, expected both: a dense model has no "
                             "experts",
                             key));
  }
  return Done{};
}

Status check_exchange_sms(const Scenario& s) {
  const Plan& plan = s.job.plan;
  const bool exchanges = plan.dispatcher == Dispatcher::DeepEp && plan.ep > 1;
  if (!exchanges || plan.expert_sms > 0 || !s.places.contains("overlap.expert_sms")) return Done{};
  return Error::of({"overlap.expert_sms"},
                   "found overlap.expert_sms = 0 with parallel.dispatcher = deepep, expected a "
                   "positive number, or none for its 20: SMs carry its copies");
}

Status check_offload(const Scenario& s) {
  const DeviceSpec& device = s.cluster.spec.device;
  for (const char* key : {"train.activation_offload_modules", "train.activation_offload_layers"}) {
    if (!s.job.plan.offloads_activations() || !s.places.contains(key)) continue;
    if (s.costs.uniform)
      return Error::of({key},
                       fmt::format("found {} with costs.source = uniform, expected it not to "
                                   "be set: an action's seconds say nothing of copies",
                                   key));
    if (device.host_link_bytes_per_s == 0)
      return Error::of({key}, fmt::format("found {}, expected cluster.host_link_GBps with it: this "
                                          "GPU's is not known",
                                          key));
  }
  const bool known = device.host_link_bytes_per_s > 0 && device.host_memory_bytes_per_s > 0;
  if (s.job.plan.optimizer_offload == 0 || known) return Done{};
  return Error::of({"train.optimizer_offload"},
                   "found train.optimizer_offload, expected cluster.host_link_GBps and "
                   "cluster.host_memory_GBps with it: this GPU's are not known");
}

}  // namespace tandem
