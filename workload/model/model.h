// Model: the shape of a model, and what a plan puts of it on each GPU.
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

// A layer's first half: attention by heads (grouped queries, whole or in a window), attention by
// latents (DeepSeek-V2, arXiv 2405.04434), a Mamba-2 mixer (arXiv 2405.21060), a gated delta net
// (arXiv 2412.06464), or nothing.
enum class Mixer { Heads, Latent, Mamba, Linear, None };
std::string_view mixer_name(Mixer mixer);  // heads, latent, mamba, linear, none

// Positions in a chunk of the gated delta net's scan, as in flash-linear-attention.
constexpr int kDeltaChunk = 64;

// The load of the busiest of `ranks` expert-parallel ranks, divided by the mean rank's: `mean` over
// a layer's exchanges, and `most` of them (workload/model/routing.h).
struct RoutedLoad {
  int ranks = 1;
  double mean = 1, most = 1;
  bool even = true;    // in each exchange all ranks take equally many tokens
  double dropped = 0;  // share of all exchanges' tokens that are above an expert's capacity
  bool operator==(const RoutedLoad&) const = default;
};

// The dimensions of a transformer decoder. Without a gated MLP it is built as GPT is: biases,
// LayerNorm, learned positions, dropout. With one it is built as Llama is: no biases, RMSNorm,
// rotary positions, no dropout. Each of these can also be set by itself.
//
// Layers are all alike, or of several kinds. Then each kind is a Model whose layers are all of that
// kind, and `layer_kinds` has the kind of each layer.
struct Model {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;    // 0: as heads
  int ffn_hidden = 0;  // 0: 4 hidden
  bool gated_mlp = false;
  int seq = 0;
  int vocab = 0;
  // Mixture of experts: every layer's MLP has `experts` experts of width expert_ffn(), of which
  // each token takes top_k, and a shared expert of width shared_expert_ffn (0: none). 0 experts: a
  // dense model.
  int experts = 0;
  int top_k = 0;
  // Experts form so many equal groups, and a token's experts lie in router_topk_groups of the
  // groups (as DeepSeek-V3 limits the nodes to which a token goes). 0: in any.
  int router_groups = 0, router_topk_groups = 0;
  int expert_ffn_hidden = 0;  // 0: as ffn()
  int shared_expert_ffn = 0;
  // Tokens of the busiest expert rank divided by the mean rank's. All wait for the busiest. 1:
  // even.
  double expert_imbalance = 1;
  // The same ratio for each number of ranks, computed from the tokens of each expert that
  // model.routing gives. Empty: expert_imbalance holds.
  std::vector<RoutedLoad> routed;
  // The most tokens that an expert takes, as a multiple of the mean expert's; further tokens are
  // dropped. 0: none are dropped. With pad_to_capacity every expert takes that many, with padding.
  double capacity_factor = 0;
  bool pad_to_capacity = false;
  bool tied_embeddings = true;  // the head multiplies by the embedding; else by its own matrix

  Mixer mixer = Mixer::Heads;
  bool has_mlp = true;      // a layer's second half: an MLP, or experts if there are any
  int head_dim = 0;         // 0: hidden / heads
  int window = 0;           // positions that one attends to: its own and those before; 0: all
  int attention_chunk = 0;  // attention inside so many positions; 0: over the whole sequence
  int document = 0;      // positions of a packed sequence's documents, each attended apart; 0: one
  bool qk_norm = false;  // an RMSNorm of each head's queries and keys
  bool attention_sinks = false;  // a learned logit for each head (gpt-oss)
  // Biases of the linear layers, and the kind of norm; unset: as gated_mlp says.
  std::optional<bool> attention_bias, output_bias, mlp_bias, rms_norm, learned_positions;
  bool router_bias = false;
  bool shared_kv = false;  // keys are also the values, from one product
  int moe_latent = 0;      // width in which experts work; 0: hidden
  // Latent attention: ranks of the compressed queries (0: not compressed) and of keys and values;
  // for a head the sizes of its parts without and with rotary positions, and of its value.
  int q_lora_rank = 0, kv_lora_rank = 0;
  int qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  // Mamba-2: heads of the inner array and their size, the state's size, groups that share B and C,
  // the convolution's width, and the scan's chunk.
  int mamba_heads = 0, mamba_head_dim = 0, mamba_state = 0;
  int mamba_groups = 1, mamba_conv = 4, mamba_chunk = 128;
  // Gated delta net: heads of keys and of values, their sizes, the convolution's width.
  int linear_key_heads = 0, linear_value_heads = 0;
  int linear_key_head_dim = 0, linear_value_head_dim = 0, linear_conv = 4;
  // Layers beyond `layers`, behind the head. Each predicts one token more (multi-token prediction,
  // DeepSeek-V3, arXiv 2412.19437, section 2.2), with a layer like the last one and the head again.
  int mtp_layers = 0;

  std::string kind;              // name of this kind
  std::vector<Model> kinds;      // empty: all layers are alike
  std::vector<int> layer_kinds;  // by layer: its number in `kinds`

  // Says whether any layer has experts.
  bool is_moe() const {
    return kinds.empty() ? experts > 0 && has_mlp
                         : std::ranges::any_of(kinds, [](const Model& k) { return k.is_moe(); });
  }
  int head_size() const { return head_dim > 0 || heads == 0 ? head_dim : hidden / heads; }
  int key_value_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  bool latent() const { return mixer == Mixer::Latent; }
  bool attends() const { return mixer == Mixer::Heads || mixer == Mixer::Latent; }
  // Sizes of a head: of its queries and keys, and of its values.
  int query_size() const { return latent() ? qk_nope_head_dim + qk_rope_head_dim : head_size(); }
  int value_size() const { return latent() ? v_head_dim : head_size(); }
  // Returns the columns of latent attention's compressed queries, and keys and values.
  int compressed_columns() const {
    return latent() ? q_lora_rank + kv_lora_rank + qk_rope_head_dim : 0;
  }
  // Returns how many of a layer's two halves it has.
  int halves() const { return (mixer != Mixer::None ? 1 : 0) + (has_mlp ? 1 : 0); }
  bool uses_rms_norm() const { return rms_norm.value_or(gated_mlp); }
  bool learns_positions() const { return learned_positions.value_or(!gated_mlp); }
  void set_seq(int tokens) {
    seq = tokens;
    for (Model& each : kinds) each.seq = tokens;
  }
  // Returns the layer of that number, as a model of such layers alone.
  const Model& layer(int number) const { return kinds.empty() ? *this : kinds[kind_of(number)]; }
  // Returns the number of its kind; 0 if all are alike.
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

// Returns the number of layers of every stage: as listed, else even. If pp vpp does not divide the
// layers but divides layers + 2, the embedding and the head count as layers. Otherwise each stage
// gets the ceiling as long as layers are left. REQUIRES: positive layers, pp and vpp.
std::vector<int> split_layers(const Model& model, const Plan& plan);

// The layers of a stage: `count` of them from layer `begin` on.
struct StageLayers {
  int stage = 0, begin = 0, count = 0;
};
// Returns split_layers() with the first layer of each stage.
std::vector<StageLayers> layers_of_stages(const Model& model, const Plan& plan);

// Counts the kinds among `layers` layers from `first` on, in the order of the kinds.
struct LayersOfKind {
  const Model* kind;  // the model itself where all are alike
  int layers = 0;

  bool operator==(const LayersOfKind&) const = default;
};
using LayersOfKinds = boost::container::small_vector<LayersOfKind, 4>;
LayersOfKinds kinds_in(const Model& model, int first, int layers);
// Counts the kinds of all layers. REQUIRES: `model` outlives the result.
inline LayersOfKinds kinds_of(const Model& model) { return kinds_in(model, 0, model.layers); }
// Returns the kind that has experts; the model itself if none has.
const Model& expert_layer(const Model& model);

// Checks all the rules that a model and a plan must keep: positive sizes, heads divisible by tp,
// hidden by heads, global batch by micro batch x dp, layers listed for every stage and adding up,
// ... Each Error names the scenario's key and the rule, with the numbers. The vocabulary need not
// divide: see padded_vocab.
Status check_model(const Model& model, const Plan& plan);
// Checks the rules of the plan alone, for a model that was checked before: for many plans.
Status check_plan(const Model& model, const Plan& plan);
// Checks the rules that also hold for a part of a job: a few layers on stages of their own, priced
// alone. It does not check what train's keys say of the whole, such as train.recompute_layers
// against model.layers.
Status check_part(const Model& model, const Plan& plan);

// Checks only the rules about sizes that are stated (above 0), for jobs whose costs do not come
// from the model.
Status check_stated(const Model& model, const Plan& plan);

// Returns the vocabulary as it is laid out on the GPUs: padded to a multiple of 128 tp, as Megatron
// does (GPT-2's 50,257 becomes 50,304, or 51,200 with tp = 8). FLOPs and parameters count it
// unpadded.
int padded_vocab(const Model& model, const Plan& plan);

// Return the number of parameters: of the whole model (with untied embeddings both matrices), of
// one layer and its two blocks, of the embedding with its learned positions. GPT: 12 l h^2 (1 +
// 13/12h) + (V + s) h (Narayanan et al. 2021, arXiv 2104.04473, equation 2, which leaves out the
// last LayerNorm's 2h, too).
double parameters(const Model& model);
// The next three REQUIRE a model whose layers are alike.
double layer_parameters(const Model& model);
double attention_parameters(const Model& model);
double mlp_parameters(const Model& model);
double embedding_parameters(const Model& model);
// Return the parameters of one expert, and of the router that sends tokens to experts; 0 if dense.
double expert_parameters(const Model& model);
double router_parameters(const Model& model);
// Returns the weights from hidden into the width in which experts work (moe_latent), and back; 0
// without such a width.
double latent_parameters(const Model& model);
// Returns the weights of the linear layers in a layer's first half. Heads: into Q, K and V, and
// out. Latent: down to the ranks, up to the heads, and out. Scans: into gate, input, keys, queries
// and steps, and out.
double mixer_weights(const Model& model);
// Returns the number of weight matrices of an MLP.
inline double mlp_matrices(const Model& model) { return model.gated_mlp ? 3 : 2; }
// Returns the parameters of a layer that every tensor rank holds whole: the router's, and those
// that compress latent attention's input.
double replicated_parameters(const Model& model);

// Return the number of parameters as model cards count it: with the last norm, without multi-token
// prediction.
// `active` counts only those experts that a token takes.
double card_parameters(const Model& model);
double active_parameters(const Model& model);

// The parameters that one GPU holds; those of experts have fewer replicas.
struct HeldParameters {
  double dense = 0, expert = 0;

  double total() const { return dense + expert; }
  HeldParameters& operator+=(const HeldParameters& more) {
    dense += more.dense;
    expert += more.expert;
    return *this;
  }
};

// Returns how many of the parameters `held` are on a GPU; fewer if ZeRO cuts them.
double zero_share(const HeldParameters& held, const OrderedPlan& plan, bool is_cut);

// Returns the parameters of `layers` layers that one GPU holds: its tensor-parallel part, all of
// what tensor ranks replicate, and its experts. REQUIRES: layers that are alike.
HeldParameters share_of_equal_layers(const Model& model, const Plan& plan, int layers);
// Returns the same for the layers from `first` on, of any kinds.
HeldParameters share_of_layers(const Model& model, const Plan& plan, int first, int layers);
// Returns how many of these parameters a recipe quantizes (workload/model/recipe.h): all but the
// routers'.
double linear_share(const Model& model, const Plan& plan, int first, int layers);
// Returns the parameters, on one GPU of plan.mtp_stage(), of the layers that predict further
// tokens. mtp_embedding_share is the copy of the embedding that they need if that stage is neither
// the first one nor the head's.
HeldParameters mtp_share(const Model& model, const Plan& plan);
double mtp_embedding_share(const Model& model, const Plan& plan);
double embedding_share(const Model& model, const Plan& plan);
double position_parameters(const Model& model);
// Returns the rows of the vocabulary that one GPU has: V / tp, or with plan.vocabulary V / (tp pp),
// rounded up to an even number. vocabulary_share is the parameters of both matrices (one if they
// are tied) that each pipeline rank then holds.
std::int64_t vocabulary_rows(const Model& model, const Plan& plan);
double vocabulary_share(const Model& model, const Plan& plan);

// Says whether the last stage holds a copy of the embedding for the head. head_share is what it
// holds for the head beside the embedding: the copy, or an untied model's matrix.
bool head_has_copy(const Model& model, const OrderedPlan& plan);
double head_share(const Model& model, const OrderedPlan& plan);

// Returns the parameters of each stage: its layers; on the first one the embedding with all
// positions; on the last one the head's matrix. With plan.vocabulary each of the first pp stages
// has the share of its rank.
std::vector<HeldParameters> stage_parameters(const Model& model, const OrderedPlan& plan);

// Returns how many of a stage's layers full recompute repeats: the first ones (Megatron's
// --recompute-method block).
int recomputed_layers(const Plan& plan, int stage_layers);
// Returns how the layers are recomputed that full recompute does not repeat.
Recompute recompute_of_others(const Plan& plan);
// Returns how layers of multi-token prediction are recomputed: as all others, or not at all if only
// a number of layers is.
Recompute mtp_recompute(const Plan& plan);

// Say whether selective recompute repeats a layer's unfused attention core; its MLP or experts as a
// whole; its shared expert.
bool recomputes_core(const Model& model, const Plan& plan);
bool recomputes_mlp(const Model& model, const Plan& plan);
bool recomputes_shared(const Model& model, const Plan& plan);
// Returns whether selective recompute repeats the core of attention alone, of which flash attention
// keeps no scores: time and memory are as without recompute.
bool recomputes_nothing(const Plan& plan);

// Return the FLOPs of one iteration on all GPUs, from the real shapes.
//
// `model_flops` counts no recompute: 72 B s l h^2 (1 + s/6h + V/12lh) for f = 4h. `hardware_flops`
// adds the recomputed forward: 96 B s l h^2 (1 + s/6h + V/16lh) with full recompute (Narayanan et
// al. 2021, equation 3); another 4 B s^2 h a layer with selective recompute, the attention core's
// two products. A token of a mixture of experts counts its top_k experts, the shared one and the
// router. With a capacity, `hardware_flops` counts what experts take: the mean's share at most, or
// always with padding. `model_flops` counts dropped tokens, too.
//
// Both count the attention core's products by the same convention, so that hardware FLOPs are never
// fewer than the model's but for dropped tokens. `Causal` counts what a mask, a window or chunks
// leave. `Whole` counts twice that: the whole matrix under a causal mask, as Megatron-LM's equation
// above and PaLM's appendix B (arXiv 2204.02311) do. Flash attention computes what is left, and in
// the backward the scores again (FlashAttention-2, arXiv 2307.08691: 2.5 times the forward);
// `hardware_flops` counts these once more, by the convention. Kernels with flash attention compute
// `Causal`. Others compute `Whole`, or, with a window or chunks, the whole matrix.
constexpr double kFlashBackward = 2.5;
// Returns the share of an s x s matrix that a causal mask leaves; less in a window or in chunks:
// 1/2, w/s - w^2 / 2 s^2, c / 2s. Where chunks do not divide s, the last one is shorter.
double attended_share(const Model& model);
enum class AttentionFlops { Whole, Causal };
double model_flops(const Model& model, const Plan& plan,
                   AttentionFlops attention = AttentionFlops::Whole);
double hardware_flops(const Model& model, const Plan& plan,
                      AttentionFlops attention = AttentionFlops::Whole);

// Returns the bytes of one parameter or activation in memory and on the wire. fp8 is a format of
// GEMMs only: parameters and activations are kept and sent in 16 bits. REQUIRES: a plan that passed
// check_model().
int stored_bytes(const Plan& plan);

}  // namespace tandem
