// The model's shape, and what of it a plan puts on each GPU.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "workload/model/plan.h"

namespace tandem {

// A layer's first half: attention by heads (grouped queries, whole or in a window), by latents
// (DeepSeek-V2, arXiv 2405.04434), a Mamba-2 mixer (arXiv 2405.21060), a gated delta net (arXiv
// 2412.06464), or nothing.
enum class Mixer { Heads, Latent, Mamba, Linear, None };
std::string_view name(Mixer mixer);  // heads, latent, mamba, linear, none

// Positions of a chunk of the gated delta net's scan, as in flash-linear-attention.
constexpr int kDeltaChunk = 64;

// A transformer decoder's dimensions. Without a gated MLP it is built as GPT is: biases, LayerNorm,
// learned positions, dropout. With one, as Llama is: no biases, RMSNorm, rotary positions, no
// dropout. Each of these can be said by itself.
//
// All layers are alike, or of several kinds: then each kind is a Model of such layers alone, and
// `layer_kinds` says which layer is of which.
struct Model {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;    // 0: as heads
  int ffn_hidden = 0;  // 0: 4 hidden
  bool gated_mlp = false;
  int seq = 0;
  int vocab = 0;
  // Mixture of experts: every layer's MLP is `experts` of them, each of width expert_ffn(), of
  // which a token takes top_k, and beside them a shared one of width shared_expert_ffn (0: none). 0
  // experts: a dense model.
  int experts = 0;
  int top_k = 0;
  // Experts stand in so many equal groups, and a token's lie in router_topk_groups of them; 0: in
  // any. (DeepSeek-V3's limit of nodes a token.)
  int router_groups = 0, router_topk_groups = 0;
  int expert_ffn_hidden = 0;  // 0: as ffn()
  int shared_expert_ffn = 0;
  // Tokens of the busiest expert rank over the mean: what all wait for. 1: even.
  double expert_imbalance = 1;
  // Tokens that an expert takes at most over the mean, others are dropped; 0: none are. Or it takes
  // as many always, with padding.
  double capacity_factor = 0;
  bool pad_to_capacity = false;
  bool tied_embeddings = true;  // the head multiplies by the embedding; else by a matrix of its own

  Mixer mixer = Mixer::Heads;
  bool has_mlp = true;      // a layer's second half: an MLP, or experts where there are any
  int head_dim = 0;         // 0: hidden / heads
  int window = 0;           // positions that one attends to, its own and those before; 0: all
  int attention_chunk = 0;  // attention inside so many positions; 0: over the whole sequence
  int document = 0;      // positions of a packed sequence's documents, each attended apart; 0: one
  bool qk_norm = false;  // an RMSNorm of each head's queries and keys
  bool attention_sinks = false;  // a learned logit a head (gpt-oss)
  // Biases of the linear layers, and which norm; nothing: as gated_mlp says.
  std::optional<bool> attention_bias, output_bias, mlp_bias, rms_norm, learned_positions;
  bool router_bias = false;
  bool shared_kv = false;  // keys are the values too, of one product
  int moe_latent = 0;      // width that experts work in; 0: hidden
  // Latent attention: ranks of the compressed queries (0: not compressed) and of keys and values;
  // sizes of a head's part without and with rotary positions, and of its value.
  int q_lora_rank = 0, kv_lora_rank = 0;
  int qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  // Mamba-2: heads of the inner array and their size, the state's size, groups that share B and C,
  // the convolution's width, and the chunk of the scan.
  int mamba_heads = 0, mamba_head_dim = 0, mamba_state = 0;
  int mamba_groups = 1, mamba_conv = 4, mamba_chunk = 128;
  // Gated delta net: heads of keys and of values, their sizes, the convolution's width.
  int linear_key_heads = 0, linear_value_heads = 0;
  int linear_key_head_dim = 0, linear_value_head_dim = 0, linear_conv = 4;
  // Beyond `layers`, behind the head: each predicts one token more (multi-token prediction,
  // DeepSeek-V3, arXiv 2412.19437, section 2.2), with a layer like the last and the head again.
  int mtp_layers = 0;

  std::string kind;              // its name, of a kind
  std::vector<Model> kinds;      // empty: all layers are alike
  std::vector<int> layer_kinds;  // of each layer, its number in `kinds`

  // In any layer.
  bool is_moe() const {
    return kinds.empty() ? experts > 0 && has_mlp
                         : std::ranges::any_of(kinds, [](const Model& k) { return k.is_moe(); });
  }
  int head_size() const { return head_dim > 0 ? head_dim : hidden / heads; }
  int key_value_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  bool latent() const { return mixer == Mixer::Latent; }
  bool attends() const { return mixer == Mixer::Heads || mixer == Mixer::Latent; }
  // Of a head: queries and keys; values.
  int query_size() const { return latent() ? qk_nope_head_dim + qk_rope_head_dim : head_size(); }
  int value_size() const { return latent() ? v_head_dim : head_size(); }
  // A layer's halves that are there.
  int halves() const { return (mixer != Mixer::None ? 1 : 0) + (has_mlp ? 1 : 0); }
  bool uses_rms_norm() const { return rms_norm.value_or(gated_mlp); }
  bool learns_positions() const { return learned_positions.value_or(!gated_mlp); }
  void set_seq(int tokens) {
    seq = tokens;
    for (Model& each : kinds) each.seq = tokens;
  }
  // The layer so numbered, as a model of such layers alone.
  const Model& layer(int number) const { return kinds.empty() ? *this : kinds[kind_of(number)]; }
  // Its kind's number; 0 where all are alike.
  int kind_of(int number) const { return kinds.empty() ? 0 : layer_kinds[number]; }
  // Columns of a scan's inner array; of a delta net's keys, and of its values.
  std::int64_t mamba_inner() const { return std::int64_t{mamba_heads} * mamba_head_dim; }
  std::int64_t linear_keys() const { return std::int64_t{linear_key_heads} * linear_key_head_dim; }
  std::int64_t linear_values() const {
    return std::int64_t{linear_value_heads} * linear_value_head_dim;
  }
  int ffn() const { return ffn_hidden > 0 ? ffn_hidden : 4 * hidden; }
  int expert_hidden() const { return moe_latent > 0 ? moe_latent : hidden; }
  int expert_ffn() const { return expert_ffn_hidden > 0 ? expert_ffn_hidden : ffn(); }
};

// Layers of every stage: listed, or even; where pp vpp does not divide the layers but divides
// layers + 2, embedding and head count as layers; else ceil per stage, the remainder on the last.
// REQUIRES: positive layers, pp and vpp.
std::vector<int> split_layers(const Model& model, const Plan& plan);

// Of `layers` layers from `first` on: how many of each kind, in the order of the kinds.
struct LayersOfKind {
  const Model* kind;  // the model itself where all are alike
  int layers = 0;

  bool operator==(const LayersOfKind&) const = default;
};
using LayersOfKinds = boost::container::small_vector<LayersOfKind, 4>;
LayersOfKinds kinds_in(const Model& model, int first, int layers);
// Of all its layers. REQUIRES: `model` outlives them.
inline LayersOfKinds kinds_of(const Model& model) { return kinds_in(model, 0, model.layers); }
// The kind that has experts; the model itself where none does.
const Model& expert_layer(const Model& model);

// All the rules a model and a plan must keep: positive sizes, heads divisible by tp, hidden by
// heads, global batch by micro batch x dp, layers listed for every stage and adding up, ... Each
// Error names the scenario's key and the rule, with the numbers. The vocabulary need not divide:
// see padded_vocab.
Status check(const Model& model, const Plan& plan);
// Those of the plan, for a model that is known to keep its own: of many plans.
Status check_plan(const Model& model, const Plan& plan);
// Those that a part of a job keeps as well: a few layers on stages of their own, priced alone. Not
// asked is what train's keys say of the whole, such as train.recompute_layers against
// model.layers.
Status check_part(const Model& model, const Plan& plan);

// Of these rules those among what is stated of a model (sizes above 0): for jobs whose costs do not
// come from it.
Status check_stated(const Model& model, const Plan& plan);

// The vocabulary as it is laid out on the GPUs: padded to a multiple of 128 tp, as Megatron does
// (GPT-2's 50,257 becomes 50,304, or 51,200 with tp = 8). FLOPs and parameters count it unpadded.
int padded_vocab(const Model& model, const Plan& plan);

// Parameters of the whole model (of untied embeddings both), of one layer and its two blocks, of
// the embedding with its learned positions. GPT: 12 l h^2 (1 + 13/12h) + (V + s) h (Narayanan et
// al. 2021, arXiv 2104.04473, equation 2, where the last LayerNorm's 2h are left out too).
double parameters(const Model& model);
// Those of one layer REQUIRE a model whose layers are alike.
double layer_parameters(const Model& model);
double attention_parameters(const Model& model);
double mlp_parameters(const Model& model);
double embedding_parameters(const Model& model);
// Of these, one expert's and those of the router that sends tokens to experts; 0 if dense.
double expert_parameters(const Model& model);
double router_parameters(const Model& model);
// Of the products into the width that experts work in and out of it; 0 where that is hidden.
double latent_parameters(const Model& model);
// Of a layer those that every tensor rank holds whole: the router, and the products that compress
// latent attention's input.
double replicated_parameters(const Model& model);

// As model cards count: with the last norm, without multi-token prediction; `active`: of the
// experts those that a token takes.
double card_parameters(const Model& model);
double active_parameters(const Model& model);

// Parameters that one GPU holds; those of experts have fewer replicas.
struct HeldParameters {
  double dense = 0, expert = 0;

  double total() const { return dense + expert; }
};

// Of layers: their tensor share (of what is replicated, all), and that of their experts.
// REQUIRES: layers that are alike.
HeldParameters layers_share(const Model& model, const Plan& plan, int layers);
// Of the layers from `first` on, of whatever kinds.
HeldParameters layers_share(const Model& model, const Plan& plan, int first, int layers);
// Of them those of linear layers that a recipe quantizes (workload/model/recipe.h): all but the
// routers'.
double linear_share(const Model& model, const Plan& plan, int first, int layers);
// Of the layers that predict further tokens, all on plan.mtp_stage(); and the embedding that they
// need there, where it is neither the first stage nor that of the head.
HeldParameters mtp_share(const Model& model, const Plan& plan);
double mtp_embedding_share(const Model& model, const Plan& plan);
double embedding_share(const Model& model, const Plan& plan);
double position_parameters(const Model& model);
// Rows of the vocabulary that one GPU has: of V / tp, or with plan.vocabulary of V / (tp pp),
// rounded up to an even number. And parameters of both matrices (one, where they are tied) that
// each pipeline rank then holds of it.
std::int64_t vocabulary_rows(const Model& model, const Plan& plan);
double vocabulary_share(const Model& model, const Plan& plan);

// Whether the last stage holds a copy of the embedding for the head; and what it holds for the head
// beside the embedding: the copy, or an untied model's matrix.
bool head_has_copy(const Model& model, const OrderedPlan& plan);
double head_share(const Model& model, const OrderedPlan& plan);

// By stage: its layers; on the first one the embedding, with all positions; on the last one the
// head's matrix. With plan.vocabulary on each of the first pp stages the share of its rank.
std::vector<HeldParameters> stage_parameters(const Model& model, const OrderedPlan& plan);

// Of a stage's layers, those that full recompute repeats: the first ones (Megatron's
// --recompute-method block).
int recomputed_layers(const Plan& plan, int stage_layers);
// How those of multi-token prediction are recomputed: as all others, or not where only a number is.
Recompute mtp_recompute(const Plan& plan);

// What selective recompute repeats of a layer: attention's core, where it is not fused; an MLP or
// the experts as a whole; the shared expert.
bool recomputes_core(const Model& model, const Plan& plan);
bool recomputes_mlp(const Model& model, const Plan& plan);
bool recomputes_shared(const Model& model, const Plan& plan);

// FLOPs of one iteration, all GPUs, from the real shapes. `model_flops` counts no recompute, for
// f = 4h 72 B s l h^2 (1 + s/6h + V/12lh); `hardware_flops` adds the recomputed forward: with full
// recompute 96 B s l h^2 (1 + s/6h + V/16lh) (Narayanan et al. 2021, equation 3), with selective
// recompute another 4 B s^2 h a layer, the attention core's two products. A token of a mixture of
// experts counts its top_k, the shared one and the router.
//
// Both count the attention core's products by one convention, so that no hardware FLOPs are fewer
// than the model's: whole, as Megatron-LM's equation above and PaLM's appendix B (arXiv 2204.02311)
// do, or the half that a causal mask leaves; in a window or in chunks twice what they leave, or
// that. Flash attention computes that half, and in the backward the scores again (FlashAttention-2,
// arXiv 2307.08691: 2.5 times the forward): `hardware_flops` counts this once more, by the
// convention. What kernels compute is `Causal` with flash attention, else `Whole`, but for windows
// and chunks: without it the whole matrix.
constexpr double kFlashBackward = 2.5;
// Of an s x s matrix, what a causal mask leaves, in a window or in chunks less: 1/2, w/s - w^2 / 2
// s^2, c / 2s.
double attended_share(const Model& model);
enum class AttentionFlops { Whole, Causal };
double model_flops(const Model& model, const Plan& plan,
                   AttentionFlops attention = AttentionFlops::Whole);
double hardware_flops(const Model& model, const Plan& plan,
                      AttentionFlops attention = AttentionFlops::Whole);

// Bytes of one parameter or activation in memory and on the wire: fp8 is a GEMM's format only, its
// parameters and activations are kept and sent in 16 bits. REQUIRES: a plan that passed check().
int stored_bytes(const Plan& plan);

}  // namespace tandem
