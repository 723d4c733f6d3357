// Adds up the arrays that a forward keeps for its backward. Letters in formulas: b microbatch, s
// positions, h hidden, a heads, t tensor ranks.
#include "workload/memory/activations.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"
#include "workload/memory/memory.h"
#include "workload/memory/trainer.h"
#include "workload/model/blocks.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

// A scan keeps the input and the output of its convolution.
constexpr double kScanArrays = 2;

// Logits of a router are fp32.
constexpr double kLogitBytes = 4;

// Fused attention keeps the log-sum-exp of each row of its matrix, fp32.
constexpr double kLogSumExpBytes = 4;

constexpr RecomputeModules kNoModules = {.core_attn = false};

// Returns the modules that are recomputed: none, or the plan's under selective recompute.
const RecomputeModules& modules_dropped(const Plan& plan, Recompute recompute) {
  return recompute == Recompute::Selective ? plan.recompute_modules : kNoModules;
}

double tokens(const Model& model, const Plan& plan) {
  return static_cast<double>(tokens_of(model, plan));
}

// Returns over how many GPUs sequence parallelism cuts the arrays that tensor parallelism alone
// does not cut.
double sequence_ranks(const Plan& plan) { return plan.sequence_parallel ? plan.tp : 1; }

// Returns the bytes of dropout's mask for a number: 1, or 0 for models without dropout (see Model).
double mask_bytes(const Model& model) { return model.uses_rms_norm() ? 0 : 1; }

// Returns the bytes of a number of a linear layer's input, which is kept for the weight gradient. A
// quantized layer keeps only the quantized form that this gradient needs.
double input_bytes(const Plan& plan) {
  const std::optional<Recipe> recipe = recipe_of(plan);
  return recipe ? recipe->number_bytes : stored_bytes(plan);
}

// Returns the additional bytes of such a number if another operation keeps the array in 16 bits
// anyway: those of a quantized copy, or none.
double copy_bytes(const Plan& plan) { return recipe_of(plan) ? input_bytes(plan) : 0; }

// Returns the bytes that a token keeps in a layer's first half, on all tensor ranks together.
// Attention keeps Q, K, V and the input of its output projection; a scan keeps its convolution's
// arrays, its gate and its output.
double mixer_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  const Plan whole;  // with tp = 1
  const auto all = [&](std::int64_t (*columns)(const Model&, const Plan&)) {
    return static_cast<double>(columns(model, whole));
  };
  const double e = stored_bytes(plan), copy = copy_bytes(plan);
  switch (model.mixer) {
    case Mixer::Latent:
    case Mixer::Heads: {
      const bool recomputes = model.latent() && dropped.mla_up_proj;
      // Tensor ranks that share a key/value head each keep a copy of it.
      const double kv = std::max(all(key_value_columns),
                                 plan.tp * static_cast<double>(key_value_columns(model, plan)));
      return (recomputes ? 0 : e * (all(query_columns) + kv)) + (e + copy) * all(output_columns);
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
// input and output, and in eager layers the activation of the gate, which multiplies the other half
// (modeling_llama.py, LlamaMLP).
double inner_bytes(const Model& model, const Plan& plan, bool activation_dropped) {
  const bool keeps_gate = model.gated_mlp && memory_of(trainer_of(plan)).eager_layers;
  const double inputs = (model.gated_mlp ? 2 : 1) * stored_bytes(plan);
  if (activation_dropped) return inputs;
  return inputs + (input_bytes(plan) + (keeps_gate ? stored_bytes(plan) : 0));
}

// Returns the bytes for a number that an eager RMSNorm keeps beyond its 16-bit input and output: 2
// more for the input, which is kept in fp32, and 2 for the normalized array, which the weight
// multiplies (modeling_llama.py, LlamaRMSNorm).
double eager_norm_bytes(const Model& model, const Plan& plan) {
  constexpr double kFp32Bytes = 4;
  const bool is_eager = model.uses_rms_norm() && memory_of(trainer_of(plan)).eager_layers;
  return is_eager ? kFp32Bytes : 0;
}

// Returns the bytes that a token keeps in a dense MLP, or in the shared expert.
double mlp_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  if (!model.has_mlp) return 0;
  const bool is_moe = model.is_moe();
  const bool is_dropped = is_moe ? dropped.shared_experts || dropped.moe : dropped.mlp;
  if (is_dropped) return 0;
  return inner_bytes(model, plan, /*activation_dropped=*/false) *
         (is_moe ? model.shared_expert_ffn : model.ffn());
}

// Returns the bytes that the router's probabilities add to a number of an expert's inner array.
// They multiply the activation's output (megatron/core/transformer/moe/experts.py:640 and :652). A
// gated activation does this in its own kernel; any other keeps its output for the probabilities'
// gradient.
double weighted_bytes(const Model& model, const Plan& plan) {
  return model.gated_mlp ? 0 : stored_bytes(plan);
}

// Returns the bytes that the busiest rank keeps in a mixture of experts: the rows of its experts
// (with the rows of tensor ranks that share the experts), their inner arrays, the router's logits,
// and the tokens that an all-gather brought. Outputs of experts are not kept, because nothing
// multiplies them on their way back.
double expert_bytes(const Model& model, const Plan& plan, const RecomputeModules& dropped) {
  if (!model.is_moe() || dropped.moe) return 0;
  const double e = stored_bytes(plan);
  const double routed = static_cast<double>(routed_tokens(model, plan));
  const double copies = routed * model.top_k;
  const double row = input_bytes(plan) * plan.expert_tensor() * model.expert_hidden() +
                     (inner_bytes(model, plan, dropped.moe_act) +
                      (dropped.moe_act ? 0 : weighted_bytes(model, plan))) *
                         model.expert_ffn();
  const double gathered = plan.dispatcher == Dispatcher::AllGather && plan.ep > 1
                              ? e * routed * plan.ep * plan.expert_tensor() * model.expert_hidden()
                              : 0;
  return copies * peak_expert_load(model, plan) * row + gathered +
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
  const double half = e + (dropped.layernorm ? 0 : input_bytes(plan)) + mask_bytes(model) +
                      eager_norm_bytes(model, plan);
  const double whole = model.halves() * half * h + e * model.compressed_columns();
  const double cut = mixer_bytes(model, plan, dropped) + mlp_bytes(model, plan, dropped);
  return tokens(model, plan) * (whole / sequence_ranks(plan) + cut / plan.tp) +
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

// Arrays of fewer numbers stay on the GPU (Megatron-LM at d98e8a64, min_offloaded_tensor_size in
// megatron/core/transformer/transformer_config.py:1343).
constexpr double kLeastOffloaded = 1024 * 1024;

// An array that a module needs in its backward: how many numbers it has, and for each number the
// bytes that offloading frees on the GPU and the bytes that are copied.
struct ModuleArray {
  bool OffloadModules::*module;
  double numbers, freed, copied;
};

// Returns the arrays of attention's modules, as Megatron-LM groups them
// (megatron/core/transformer/attention.py:1386, :1552 and :1626, multi_latent_attention.py:343).
// With heads, the norm is fused with the product after it, and its input belongs to this product;
// with latent attention it is a kernel of its own. Attention's output belongs to two modules, core
// and projection, and each copies it. In 16 bits it is one array, which counts as freed with the
// projection. A quantized projection keeps a copy of its own, so that each module frees its array.
std::vector<ModuleArray> attention_arrays(const Model& model, const Plan& plan,
                                          const RecomputeModules& dropped) {
  using Modules = OffloadModules;
  if (!model.attends()) return {};
  const Plan whole;  // with tp = 1
  const double e = stored_bytes(plan), in = input_bytes(plan), copy = copy_bytes(plan);
  const double all = tokens(model, plan), uncut = all / sequence_ranks(plan);
  const double norm_out = dropped.layernorm ? 0 : in;
  const double kv = std::max(static_cast<double>(key_value_columns(model, whole)) / plan.tp,
                             static_cast<double>(key_value_columns(model, plan)));
  const double core = model.latent() && dropped.mla_up_proj ? 0 : e;
  const double out = all * static_cast<double>(output_columns(model, whole)) / plan.tp;
  const bool shares_output = copy == 0;
  const double core_frees = shares_output ? 0 : e, projected = shares_output ? e : copy;
  // An input of a CUDA graph cannot be offloaded.
  const bool norm_stays = model.latent() && plan.cuda_graphs && plan.cuda_graph_modules.attn;
  const double norm_in = norm_stays ? 0 : e;
  return {// The norm's input, and its output.
          {model.latent() ? &Modules::attn_norm : &Modules::qkv_linear, uncut * model.hidden,
           norm_in, norm_in},
          {&Modules::qkv_linear, uncut * model.hidden, norm_out, norm_out},
          // Latent attention's compressed array.
          {&Modules::qkv_linear, uncut * model.compressed_columns(), e, e},
          // Q; K and V; the matrices; the output.
          {&Modules::core_attn, all * static_cast<double>(query_columns(model, whole)) / plan.tp,
           core, core},
          {&Modules::core_attn, all * kv, core, core},
          {&Modules::core_attn, matrix_bytes(model, plan) / e, e, e},
          {&Modules::core_attn, out, core_frees, e},
          // The same output, or the projection's quantized copy.
          {&Modules::attn_proj, out, projected, projected}};
}

// Returns the arrays of the experts' modules (megatron/core/transformer/moe/experts.py:787, :928
// and :941). Under recipes older than mxfp8 the first product keeps its input in 16 bits (:281),
// and this array is copied.
std::vector<ModuleArray> expert_arrays(const Model& model, const Plan& plan,
                                       const RecomputeModules& dropped) {
  using Modules = OffloadModules;
  if (!model.is_moe()) return {};
  const double e = stored_bytes(plan), in = input_bytes(plan);
  const double rows =
      static_cast<double>(routed_tokens(model, plan)) * model.top_k * peak_expert_load(model, plan);
  const double into = rows * plan.expert_tensor() * model.expert_hidden();
  const double inner = rows * model.expert_ffn();
  const bool keeps_original = plan.precision == "fp8" && plan.fp8_recipe != Fp8Recipe::Mxfp8;
  const CudaGraphModules& graphs = plan.cuda_graph_modules;
  // An input of a CUDA graph cannot be offloaded.
  const bool norm_stays = plan.cuda_graphs && (graphs.attn || graphs.moe_router);
  const double weighted = dropped.moe_act ? 0 : weighted_bytes(model, plan);
  const double norm_in = norm_stays ? 0 : e, gates = (model.gated_mlp ? 2 : 1) * inner;
  const double act_out = dropped.moe_act ? 0 : in;
  const double hidden = tokens(model, plan) * model.hidden / sequence_ranks(plan);
  const ModuleArray residual = {&Modules::mlp_norm, hidden, norm_in, norm_in};
  if (dropped.moe) return {residual};
  return {residual,
          // The first product's input.
          {&Modules::expert_fc1, into, in, keeps_original ? e : in},
          // The activation's input; its output, if the probabilities' gradient needs it.
          {&Modules::moe_act, gates, e, e},
          {&Modules::moe_act, inner, weighted, weighted},
          // Experts in one kernel: the inputs of the first product, activation and second product.
          {&Modules::fused_group_mlp, into, in, in},
          {&Modules::fused_group_mlp, gates, e, e},
          {&Modules::fused_group_mlp, inner, act_out, act_out}};
}

// Returns the arrays that a layer may offload. Arrays of scans and of a dense MLP are in no module.
std::vector<ModuleArray> module_arrays(const Model& model, const Plan& plan, Recompute recompute) {
  const RecomputeModules& dropped = modules_dropped(plan, recompute);
  std::vector<ModuleArray> arrays = attention_arrays(model, plan, dropped);
  for (const ModuleArray& array : expert_arrays(model, plan, dropped)) arrays.push_back(array);
  return arrays;
}

}  // namespace

double layer_activations(const Model& model, const Plan& plan, Recompute recompute) {
  if (recompute == Recompute::Full)
    return tokens(model, plan) * stored_bytes(plan) * model.hidden / sequence_ranks(plan);
  const RecomputeModules& dropped = modules_dropped(plan, recompute);
  return kept_bytes(model, plan, dropped) + (dropped.core_attn ? 0 : matrix_bytes(model, plan));
}

double stashed_activations(const Model& model, const Plan& plan) {
  return kept_bytes(model, plan, kNoModules);
}

Offloaded offloaded_activations(const Model& model, const Plan& plan, Recompute recompute) {
  if (plan.offload_layers > 0) {
    const double all = layer_activations(model, plan, recompute);
    return {.freed = all, .largest = all, .copied = all};
  }
  Offloaded sum;
  for (const OffloadModule& module : kOffloadModules) {
    if (!(plan.offload_modules.*module.place)) continue;
    double freed = 0;
    for (const ModuleArray& array : module_arrays(model, plan, recompute)) {
      if (array.module != module.place || array.numbers < kLeastOffloaded) continue;
      freed += array.numbers * array.freed;
      sum.copied += array.numbers * array.copied;
    }
    sum.freed += freed;
    sum.largest = std::max(sum.largest, freed);
  }
  return sum;
}

double recomputed_activations(const Model& model, const Plan& plan) {
  if (plan.recompute == Recompute::None) return 0;
  if (plan.recompute == Recompute::Full) return layer_activations(model, plan, Recompute::None);
  const RecomputeModules& dropped = plan.recompute_modules;
  return kept_bytes(model, plan, kNoModules) - kept_bytes(model, plan, dropped) +
         (dropped.core_attn ? matrix_bytes(model, plan) : 0);
}

// Counts the embedding's dropout mask.
double embedding_activations(const Model& model, const Plan& plan) {
  return mask_bytes(model) * tokens(model, plan) * model.hidden / sequence_ranks(plan);
}

// Counts the inputs of the last norm and of the head, and the logits with what cross entropy keeps.
double head_activations(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  if (plan.vocabulary > 0) return tokens(model, plan) * 2 * e * model.hidden / sequence_ranks(plan);
  const double logits = static_cast<double>(padded_vocab(model, plan)) / plan.tp;
  return tokens(model, plan) *
         (2 * e * model.hidden / sequence_ranks(plan) + logit_bytes(plan) * logits);
}

double stashed_head_activations(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const double logits = plan.vocabulary > 0 ? 0.0 : static_cast<double>(padded_vocab(model, plan));
  return tokens(model, plan) * (2 * e * model.hidden / sequence_ranks(plan) + e * logits / plan.tp);
}

// The backward has the gradient of the logits, and a dummy array in place of the weight gradient,
// which is already accumulated (LinearWithGradAccumulationAndAsyncCommunication of Megatron-LM).
double head_backward_bytes(const Model& model, const Plan& plan) {
  if (!memory_of(trainer_of(plan)).dummy_gradients || plan.vocabulary > 0) return 0;
  const double columns = static_cast<double>(padded_vocab(model, plan)) / plan.tp;
  const double rows = tokens(model, plan);
  const double backward = stored_bytes(plan) * columns * (rows + model.hidden);
  return std::max(0.0, backward - logit_bytes(plan) * columns * rows);
}

// Counts the last stage's output, which was sent to the rank, and the logits of the rank's rows of
// the vocabulary, as above.
double output_activations(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const auto rows = static_cast<double>(vocabulary_rows(model, plan));
  return tokens(model, plan) * (e * model.hidden / sequence_ranks(plan) + logit_bytes(plan) * rows);
}

// Counts one layer more, as 12 layers of 0.16 GB hold the bytes of 13 in Megatron-LM's test
// gpt3_mcore_te_tp2_pp1_te_a2a_ovlp_8experts_etp1_ep4.
double traded_activations(const Model& model, const OrderedPlan& plan) {
  if (!plan.trades_layers) return 0;
  return most_of_layers(
      model, [&](const Model& kind) { return layer_activations(kind, plan, plan.recompute); });
}

double activation_bytes_per_layer(const Model& model, const Plan& plan) {
  return layer_activations(model, plan, plan.recompute);
}

}  // namespace tandem
