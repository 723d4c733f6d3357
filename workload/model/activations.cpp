// Adds up the arrays that a forward keeps for its backward. Letters in formulas: b microbatch, s
// positions, h hidden, a heads, t tensor ranks.
#include "workload/model/activations.h"

#include <optional>

#include "base/check.h"
#include "workload/model/blocks.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

// A scan keeps the input and the output of its convolution, and its gate.
constexpr double kScanArrays = 2;

// Logits of the head, and of a router, are fp32.
constexpr double kLogitBytes = 4;

// Fused attention keeps the log-sum-exp of each row of its matrix, fp32.
constexpr double kLogSumExpBytes = 4;

constexpr RecomputeModules kNoModules = {.core_attn = false};

double tokens(const Model& model, const Plan& plan) {
  return static_cast<double>(tokens_of(model, plan));
}

// Returns over how many GPUs sequence parallelism cuts the arrays that tensor parallelism alone
// leaves whole.
double whole_share(const Plan& plan) { return plan.sequence_parallel ? plan.tp : 1; }

// Returns the bytes of dropout's mask for a number: 1, or 0 for models without dropout (see Model).
double mask_bytes(const Model& model) { return model.uses_rms_norm() ? 0 : 1; }

// Returns the bytes of a number of a linear layer's input, which is kept for the gradient of the
// weights. If the layer is quantized, only the quantized form is kept that this gradient needs.
double input_bytes(const Plan& plan) {
  const std::optional<Recipe> recipe = recipe_of(plan);
  return recipe ? recipe->number_bytes : stored_bytes(plan);
}

// Returns the additional bytes of such a number if something else keeps the array in 16 bits
// anyway: none, unless the layer needs a quantized copy.
double copy_bytes(const Plan& plan) { return recipe_of(plan) ? input_bytes(plan) : 0; }

// Returns the bytes that a token keeps in a layer's first half, on all tensor ranks together.
// Attention keeps Q, K, V and the input of its output projection; a scan keeps its input, its
// output and its gate.
double mixer_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  const Plan whole;
  const auto all = [&](std::int64_t (*columns)(const Model&, const Plan&)) {
    return static_cast<double>(columns(model, whole));
  };
  const double e = stored_bytes(plan), copy = copy_bytes(plan);
  switch (model.mixer) {
    case Mixer::Latent:
    case Mixer::Heads: {
      const bool again = model.latent() && dropped.mla_up_proj;
      // Tensor ranks that share a key/value head each keep a copy of it.
      const double kv = std::max(all(key_value_columns),
                                 plan.tp * static_cast<double>(key_value_columns(model, plan)));
      return (again ? 0 : e * (all(query_columns) + kv)) + (e + copy) * all(output_columns);
    }
    case Mixer::Mamba:
    case Mixer::Linear:
      return e * kScanArrays * (all(query_columns) + all(key_value_columns)) +
             (2 * e + copy) * all(output_columns);
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

// Returns the bytes that a token keeps for one column of the MLP's inner array: the activation's
// input and output.
double inner_bytes(const Model& model, const Plan& plan, bool activation_dropped) {
  return (model.gated_mlp ? 2 : 1) * stored_bytes(plan) +
         (activation_dropped ? 0 : input_bytes(plan));
}

double mlp_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  if (!model.has_mlp) return 0;
  if (model.is_moe() ? dropped.shared_experts || dropped.moe : dropped.mlp) return 0;
  return inner_bytes(model, plan, false) * (model.is_moe() ? model.shared_expert_ffn : model.ffn());
}

// Returns the bytes that the busiest rank keeps in a mixture of experts: the rows of its experts
// (with those of tensor ranks that share the experts) and their inner arrays, the copies of tokens
// that come back, the router's logits, and, if tokens come by an all-gather, those.
double expert_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  if (!model.is_moe() || dropped.moe) return 0;
  const double e = stored_bytes(plan);
  const double routed = static_cast<double>(routed_tokens(model, plan));
  const double copies = routed * model.top_k;
  const double row = input_bytes(plan) * plan.expert_tensor() * model.expert_hidden() +
                     inner_bytes(model, plan, dropped.moe_act) * model.expert_ffn();
  const double gathered = plan.dispatcher == Dispatcher::AllGather && plan.ep > 1
                              ? e * routed * plan.ep * whole_share(plan) * model.expert_hidden()
                              : 0;
  return copies * (expert_load(model, plan) * row + e * model.expert_hidden()) + gathered +
         kLogitBytes * routed * model.experts;
}

double log_sum_exp_bytes(const Model& model, const Plan& plan) {
  return plan.flash_attention && model.attends()
             ? kLogSumExpBytes * tokens(model, plan) * model.heads / plan.tp
             : 0;
}

// Returns the bytes of all arrays but the attention matrices. Tensor parallelism does not cut the
// inputs of each half's norm and first product (s b h each) and its dropout mask. It cuts Q, K, V,
// the projection's input, and the MLP's inner arrays. For GPT: s b h (10 + 24/t).
double kept_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  const double e = stored_bytes(plan), h = model.hidden;
  const double half = e + (dropped.layernorm ? 0 : input_bytes(plan)) + mask_bytes(model);
  const double compressed =
      model.latent() ? model.q_lora_rank + model.kv_lora_rank + model.qk_rope_head_dim : 0;
  const double whole = model.halves() * half * h + e * compressed;
  const double cut = mixer_bytes(model, plan, dropped) + mlp_bytes(model, plan, dropped);
  return tokens(model, plan) * (whole / whole_share(plan) + cut / plan.tp) +
         expert_bytes(model, plan, dropped) + log_sum_exp_bytes(model, plan);
}

// Returns the bytes of the attention matrices: softmax's output, and dropout's mask and output. For
// GPT: 2 + 1 + 2 bytes a number, 5 b a s^2 / t. Fused attention keeps none of these.
double matrix_bytes(const Model& model, const Plan& plan) {
  if (plan.flash_attention || !model.attends()) return 0;
  const double e = stored_bytes(plan);
  const double mask = mask_bytes(model);
  return (e + mask * (1 + e)) * tokens(model, plan) * model.heads * model.seq / plan.tp;
}

}  // namespace

double layer_activations(const Model& model, const Plan& plan, Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return kept_bytes(model, plan, kNoModules) + matrix_bytes(model, plan);
    case Recompute::Selective: {
      const RecomputeModules& dropped = plan.recompute_modules;
      return kept_bytes(model, plan, dropped) + (dropped.core_attn ? 0 : matrix_bytes(model, plan));
    }
    case Recompute::Full:
      return tokens(model, plan) * stored_bytes(plan) * model.hidden / whole_share(plan);
  }
  CHECK(false);
  return 0;
}

double recomputed_activations(const Model& model, const Plan& plan) {
  switch (plan.recompute) {
    case Recompute::None:
      return 0;
    case Recompute::Selective: {
      const RecomputeModules& dropped = plan.recompute_modules;
      return kept_bytes(model, plan, kNoModules) - kept_bytes(model, plan, dropped) +
             (dropped.core_attn ? matrix_bytes(model, plan) : 0);
    }
    case Recompute::Full:
      return layer_activations(model, plan, Recompute::None);
  }
  CHECK(false);
  return 0;
}

// Counts the embedding's dropout mask.
double embedding_activations(const Model& model, const Plan& plan) {
  return mask_bytes(model) * tokens(model, plan) * model.hidden / whole_share(plan);
}

// Counts the inputs of the last norm and of the head, the logits, and the fp32 copy of them that
// cross entropy keeps.
double head_activations(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  if (plan.vocabulary > 0) return tokens(model, plan) * 2 * e * model.hidden / whole_share(plan);
  const double logits = static_cast<double>(padded_vocab(model, plan)) / plan.tp;
  return tokens(model, plan) *
         (2 * e * model.hidden / whole_share(plan) + (kLogitBytes + e) * logits);
}

// Counts the last stage's output, which was sent to the rank, and the logits of the rank's rows of
// the vocabulary, with the fp32 copy as above.
double output_activations(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const auto rows = static_cast<double>(vocabulary_rows(model, plan));
  return tokens(model, plan) * (e * model.hidden / whole_share(plan) + (kLogitBytes + e) * rows);
}

double activation_bytes_per_layer(const Model& model, const Plan& plan) {
  return layer_activations(model, plan, plan.recompute);
}

}  // namespace tandem
