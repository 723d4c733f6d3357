// FLOPs of an iteration, from the shapes. Declared in workload/model/model.h.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "workload/model/blocks.h"
#include "workload/model/model.h"

namespace tandem {
namespace {

// Returns the FLOPs of the attention core's two products, forward, in one layer for the global
// batch: 2 s^2 (query size + value size) for each head and sequence, times the share attended to.
// `Whole` counts twice what a causal mask leaves.
double core_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  const double share = (attention == AttentionFlops::Causal ? 1 : 2) * attended_share(model);
  const double columns =
      static_cast<double>(model.heads) * (model.query_size() + model.value_size());
  return share * 2.0 * plan.global_batch * model.seq * model.seq * columns;
}

// Returns the FLOPs of a scan in chunks for one token: scores with all positions of its chunk,
// their product with the values, what goes into the state and what comes out of it. Masked scores
// count, as the kernels compute them.
double scan_flops(double chunk, double score_columns, double value_columns, double states) {
  return 2 * chunk * (score_columns + value_columns) + 4 * states;
}

double mixer_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  const double tokens = static_cast<double>(plan.global_batch) * model.seq;
  const auto inner = static_cast<double>(model.mamba_inner());
  const auto values = static_cast<double>(model.linear_values());
  switch (model.mixer) {
    case Mixer::Heads:
    case Mixer::Latent:
      return core_flops(model, plan, attention);
    case Mixer::Mamba:
      return tokens * scan_flops(model.mamba_chunk, model.mamba_groups * model.mamba_state, inner,
                                 inner * model.mamba_state);
    case Mixer::Linear:
      // Three products that make scores, and two of scores with values (mixer_blocks.cpp).
      return tokens * scan_flops(kDeltaChunk,
                                 3.0 * model.linear_value_heads * model.linear_key_head_dim,
                                 2 * values, values * model.linear_key_head_dim);
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

// Returns the weights in a layer's second half by which a token is multiplied.
double mlp_weights(const Model& model) {
  const double h = model.hidden;
  if (!model.has_mlp) return 0;
  if (!model.is_moe()) return mlp_matrices(model) * h * model.ffn();
  return h * model.experts + latent_parameters(model) +
         mlp_matrices(model) *
             (static_cast<double>(model.top_k) * model.expert_hidden() * model.expert_ffn() +
              h * model.shared_expert_ffn);
}

double layer_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  return 2.0 * plan.global_batch * model.seq * (mixer_weights(model) + mlp_weights(model)) +
         mixer_flops(model, plan, attention);
}

// Returns the FLOPs of a forward of a layer's experts that padding to their capacity adds, or
// (negative) that dropped tokens save.
double capacity_flops(const Model& model, const Plan& plan) {
  if (!model.is_moe() || !model.has_mlp || model.capacity_factor == 0) return 0;
  const double taken =
      model.pad_to_capacity ? model.capacity_factor : 1 - dropped_share(model, plan);
  return 2.0 * plan.global_batch * model.seq * (taken - 1) * mlp_matrices(model) * model.top_k *
         model.expert_hidden() * model.expert_ffn();
}

// Returns the weights that make latent attention's queries, keys and values out of the compressed
// ones.
double up_projection_weights(const Model& model) {
  const double rank = model.q_lora_rank > 0 ? model.q_lora_rank : model.hidden;
  return static_cast<double>(model.heads) *
         (rank * model.query_size() +
          static_cast<double>(model.kv_lora_rank) * (model.qk_nope_head_dim + model.v_head_dim));
}

// Returns the FLOPs of a layer that selective recompute repeats.
double selective_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  if (plan.recompute != Recompute::Selective) return 0;
  double weights = 0, capacity = 0;
  if (recomputes_mlp(model, plan)) {
    weights += mlp_weights(model);
    capacity = capacity_flops(model, plan);
  }
  if (recomputes_shared(model, plan))
    weights += mlp_matrices(model) * model.hidden * model.shared_expert_ffn;
  if (model.latent() && plan.recompute_modules.mla_up_proj) weights += up_projection_weights(model);
  return 2.0 * plan.global_batch * model.seq * weights + capacity +
         (recomputes_core(model, plan) ? core_flops(model, plan, attention) : 0);
}

double head_flops(const Model& model, const Plan& plan) {
  return 2.0 * plan.global_batch * model.seq * model.hidden * model.vocab;
}

// Counts for each predicted token a layer, the product of its two inputs, and the head.
double mtp_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  const double product = 2.0 * plan.global_batch * model.seq * 2 * model.hidden * model.hidden;
  return model.mtp_layers * (layer_flops(model.layer(model.layers - 1), plan, attention) + product +
                             head_flops(model, plan));
}

}  // namespace

double model_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  double layers = 0;
  for (const auto& [kind, count] : kinds_of(model))
    layers += count * layer_flops(*kind, plan, attention);
  const double mtp = model.mtp_layers == 0 ? 0 : mtp_flops(model, plan, attention);
  return 3 * (layers + head_flops(model, plan) + mtp);  // the backward is twice the forward
}

double hardware_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  double sum = model_flops(model, plan, attention);
  LayersOfKinds kinds = kinds_of(model);
  if (model.mtp_layers > 0) kinds.push_back({&model.layer(model.layers - 1), model.mtp_layers});
  for (const auto& [kind, count] : kinds) {
    sum += count * (selective_flops(*kind, plan, attention) + 3 * capacity_flops(*kind, plan));
    // The model's FLOPs count the backward as twice the forward.
    if (kind->attends() && plan.flash_attention)
      sum += count * core_flops(*kind, plan, attention) * (kFlashBackward - 2);
  }
  std::map<const Model*, int> recomputed;  // layers by kind
  for (const StageLayers& at : layers_of_stages(model, plan)) {
    for (const auto& [kind, count] : kinds_in(model, at.begin, recomputed_layers(plan, at.count)))
      recomputed[kind] += count;
  }
  if (model.mtp_layers > 0 && mtp_recompute(plan) == Recompute::Full)
    recomputed[&model.layer(model.layers - 1)] += model.mtp_layers;
  for (const auto& [kind, count] : recomputed)
    sum += count * (layer_flops(*kind, plan, attention) + capacity_flops(*kind, plan));
  return sum;
}

}  // namespace tandem
