// Counts layers over stages, and parameters.
#include "workload/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include "base/check.h"
#include "workload/cost/kernel.h"

namespace tandem {
namespace {

// Megatron's --make-vocab-size-divisible-by: head GEMMs of odd widths run at a fraction of the
// speed.
constexpr std::int64_t kVocabMultiple = 128;

double norm_parameters(const Model& model) {
  return (model.uses_rms_norm() ? 1.0 : 2.0) * model.hidden;
}

// Returns the columns of the keys and values of all heads.
double all_key_value_columns(const Model& model) {
  return (model.shared_kv ? 1.0 : 2.0) * model.key_value_heads() * model.head_size();
}

}  // namespace

std::string_view mixer_name(Mixer mixer) {
  static constexpr std::array<std::string_view, 5> kNames = {"heads", "latent", "mamba", "linear",
                                                             "none"};
  return kNames[static_cast<std::size_t>(mixer)];
}

std::string_view tensor_gemm_name(TensorGemm gemm) {
  static constexpr std::array<std::string_view, kTensorGemms> kNames = {
      "qkv_fprop", "qkv_dgrad", "qkv_wgrad", "proj_fprop", "proj_dgrad",
      "fc1_fprop", "fc1_dgrad", "fc1_wgrad", "fc2_fprop",  "fc2_dgrad"};
  return kNames[static_cast<std::size_t>(gemm)];
}

std::vector<std::string> keys_of(TensorGemm gemm) {
  return {fmt::format("overlap.gemm.{}", tensor_gemm_name(gemm)), "overlap.tensor_file",
          "overlap.tensor"};
}

std::string_view tensor_method_name(TensorMethod method) {
  static constexpr std::array<std::string_view, 4> kNames = {"off", "bulk", "pipelined", "ring"};
  return kNames[static_cast<std::size_t>(method)];
}

std::string_view context_comm_name(ContextComm comm) {
  static constexpr std::array<std::string_view, 3> kNames = {"ring", "all_gather", "all_to_all"};
  return kNames[static_cast<std::size_t>(comm)];
}

std::vector<int> split_layers(const Model& model, const Plan& plan) {
  if (!plan.layers_per_stage.empty()) return plan.layers_per_stage;
  const int stages = plan.stages();
  CHECK(model.layers > 0 && stages > 0);
  std::vector<int> split(stages);
  if (model.layers % stages == 0) {
    std::ranges::fill(split, model.layers / stages);
  } else if ((model.layers + 2) % stages == 0) {
    std::ranges::fill(split, (model.layers + 2) / stages);
    --split.front();
    --split.back();
  } else {
    const int full = (model.layers + stages - 1) / stages;
    int left = model.layers;
    for (int& layers : split) {
      layers = std::min(full, left);
      left -= layers;
    }
  }
  return split;
}

std::vector<StageLayers> layers_of_stages(const Model& model, const Plan& plan) {
  std::vector<StageLayers> stages;
  int begin = 0;
  for (const int layers : split_layers(model, plan)) {
    stages.push_back({static_cast<int>(stages.size()), begin, layers});
    begin += layers;
  }
  return stages;
}

int padded_vocab(const Model& model, const Plan& plan) {
  const std::int64_t multiple = kVocabMultiple * plan.tp;
  return static_cast<int>((model.vocab + multiple - 1) / multiple * multiple);
}

double attended_share(const Model& model) {
  // Splits the matrix into blocks of `span` positions on the diagonal, with a window inside each.
  // The last block has the rest, which is shorter. Example: 12288 positions in chunks of 8192 are
  // blocks of 8192 and 4096. A block is (side / seq)^2 of the matrix, so all blocks of `span`
  // together are span / seq times the share of the positions that they hold (`whole`).
  int span = model.seq;
  for (const int part : {model.attention_chunk, model.document}) {
    if (part > 0) span = std::min(span, part);
  }
  const auto share_of_block = [&](int side) {
    if (model.window == 0 || model.window >= side) return 0.5;
    const double w = static_cast<double>(model.window) / side;
    return w - w * w / 2;
  };
  const int rest = model.seq % span;
  const double seq = model.seq, whole = (seq - rest) / seq, last = rest / seq;
  return share_of_block(span) * (span / seq) * whole + share_of_block(rest) * last * last;
}

LayersOfKinds kinds_in(const Model& model, int first, int layers) {
  if (model.kinds.empty()) return {{&model, layers}};
  const auto begin = model.layer_kinds.begin() + first;
  LayersOfKinds all;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto count = std::count(begin, begin + layers, static_cast<int>(kind));
    if (count > 0) all.push_back({&model.kinds[kind], static_cast<int>(count)});
  }
  return all;
}

const Model& expert_layer(const Model& model) {
  const auto kind = std::ranges::find_if(model.kinds, [](const Model& k) { return k.is_moe(); });
  return kind == model.kinds.end() ? model : *kind;
}

double mixer_weights(const Model& model) {
  const double h = model.hidden, heads = model.heads;
  const auto inner = static_cast<double>(model.mamba_inner());
  const auto keys = static_cast<double>(model.linear_keys());
  const auto values = static_cast<double>(model.linear_values());
  switch (model.mixer) {
    case Mixer::Heads: {
      const double columns = heads * model.head_size() + all_key_value_columns(model);
      return h * columns + heads * model.head_size() * h;
    }
    case Mixer::Latent: {
      const double query = heads * model.query_size();
      const double rank = model.q_lora_rank, kv_rank = model.kv_lora_rank;
      return (rank > 0 ? (h + query) * rank : h * query) + h * (kv_rank + model.qk_rope_head_dim) +
             kv_rank * heads * (model.qk_nope_head_dim + model.v_head_dim) +
             heads * model.v_head_dim * h;
    }
    case Mixer::Mamba:
      return h * (2 * inner + 2.0 * model.mamba_groups * model.mamba_state + model.mamba_heads) +
             inner * h;
    case Mixer::Linear:
      return h * (2 * keys + 2 * values + 2 * model.linear_value_heads) + values * h;
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

// Adds to the weights a norm, and by mixer:
// - heads: biases. For GPT this is in all 4h^2 + 6h, if kv_heads = heads.
// - latent: a norm of each compressed array.
// - Mamba-2: the convolution with its bias; A, D and the step's bias for each head; and the norm
//   before the output projection.
// - delta net: the same without D and the convolution's bias.
double attention_parameters(const Model& model) {
  if (model.mixer == Mixer::None) return 0;
  const double h = model.hidden;
  double sum = mixer_weights(model) + norm_parameters(model);
  switch (model.mixer) {
    case Mixer::Heads: {
      const double q = static_cast<double>(model.heads) * model.head_size();
      if (model.attention_bias.value_or(!model.gated_mlp)) sum += q + all_key_value_columns(model);
      if (model.output_bias.value_or(!model.gated_mlp)) sum += h;
      if (model.qk_norm) sum += 2 * model.head_size();
      if (model.attention_sinks) sum += model.heads;
      return sum;
    }
    case Mixer::Latent:
      return sum + model.q_lora_rank + model.kv_lora_rank;
    case Mixer::Mamba: {
      const auto inner = static_cast<double>(model.mamba_inner());
      const double convolved = inner + 2.0 * model.mamba_groups * model.mamba_state;
      return sum + convolved * (model.mamba_conv + 1) + 3 * model.mamba_heads + inner;
    }
    case Mixer::Linear: {
      const auto convolved = static_cast<double>(2 * model.linear_keys() + model.linear_values());
      return sum + convolved * model.linear_conv + 2 * model.linear_value_heads +
             model.linear_value_head_dim;
    }
    case Mixer::None:
      return 0;
  }
  return 0;
}

// Returns an MLP's parameters. GPT: up and down with biases, 5h for f = 4h. Gated: gate, up, down.
double ffn_parameters(const Model& model, double h, double ffn) {
  const double biases = (model.gated_mlp ? 2 : 1) * ffn + h;
  return mlp_matrices(model) * h * ffn + (model.mlp_bias.value_or(!model.gated_mlp) ? biases : 0);
}

double expert_parameters(const Model& model) {
  return model.is_moe() ? ffn_parameters(model, model.expert_hidden(), model.expert_ffn()) : 0;
}

double mlp_parameters(const Model& model) {
  if (!model.has_mlp) return 0;
  const double norm = norm_parameters(model);
  if (!model.is_moe()) return ffn_parameters(model, model.hidden, model.ffn()) + norm;
  const double shared = model.shared_expert_ffn > 0
                            ? ffn_parameters(model, model.hidden, model.shared_expert_ffn)
                            : 0;
  return router_parameters(model) + model.experts * expert_parameters(model) + shared +
         latent_parameters(model) + norm;
}

double latent_parameters(const Model& model) {
  return model.is_moe() ? 2.0 * model.hidden * model.moe_latent : 0;
}

double router_parameters(const Model& model) {
  if (!model.is_moe()) return 0;
  return static_cast<double>(model.hidden) * model.experts +
         (model.router_bias ? model.experts : 0);
}

double replicated_parameters(const Model& model) {
  return router_parameters(model) + static_cast<double>(model.hidden) * model.compressed_columns();
}

double layer_parameters(const Model& model) {
  return attention_parameters(model) + mlp_parameters(model);
}

double embedding_parameters(const Model& model) {
  const double positions = model.learns_positions() ? model.seq : 0;
  return (model.vocab + positions) * model.hidden;
}

double parameters(const Model& model) {
  const double head = model.tied_embeddings ? 0 : static_cast<double>(model.vocab) * model.hidden;
  double layers = 0;
  for (const auto& [kind, count] : kinds_of(model)) layers += count * layer_parameters(*kind);
  return layers + embedding_parameters(model) + head;
}

double card_parameters(const Model& model) { return parameters(model) + norm_parameters(model); }

double active_parameters(const Model& model) {
  double idle = 0;
  for (const auto& [kind, count] : kinds_of(model))
    idle += static_cast<double>(count) * (kind->experts - kind->top_k) * expert_parameters(*kind);
  return card_parameters(model) - idle;
}

double zero_share(const HeldParameters& held, const OrderedPlan& plan, bool is_cut) {
  if (!is_cut) return held.total();
  return held.dense / plan.shard_ranks() + held.expert / plan.expert_shard_ranks();
}

HeldParameters share_of_equal_layers(const Model& model, const Plan& plan, int layers) {
  const double experts = model.experts * expert_parameters(model);
  const double whole = replicated_parameters(model);
  return {.dense = layers * (layer_parameters(model) - experts - whole) / plan.tp + layers * whole,
          .expert = layers * experts / (static_cast<double>(plan.ep) * plan.expert_tensor())};
}

static HeldParameters share_of_kinds(const LayersOfKinds& kinds, const Plan& plan) {
  HeldParameters sum;
  for (const auto& [kind, count] : kinds) sum += share_of_equal_layers(*kind, plan, count);
  return sum;
}

HeldParameters share_of_layers(const Model& model, const Plan& plan, int first, int layers) {
  return share_of_kinds(kinds_in(model, first, layers), plan);
}

double linear_share(const Model& model, const Plan& plan, int first, int layers) {
  double sum = share_of_layers(model, plan, first, layers).total();
  for (const auto& [kind, count] : kinds_in(model, first, layers))
    sum -= count * router_parameters(*kind);
  return sum;
}

// Counts a layer like the last one, the norms of its two inputs, the product that merges both (2h x
// h), and the norm behind the layer.
HeldParameters mtp_share(const Model& model, const Plan& plan) {
  if (model.mtp_layers == 0) return {};
  HeldParameters share =
      share_of_equal_layers(model.layer(model.layers - 1), plan, model.mtp_layers);
  const double h = model.hidden;
  share.dense += model.mtp_layers * (2 * h * h / plan.tp + 3 * norm_parameters(model));
  return share;
}

double mtp_embedding_share(const Model& model, const Plan& plan) {
  return plan.mtp_before_loss && plan.mtp_stage() > 0 ? embedding_share(model, plan) : 0;
}

double embedding_share(const Model& model, const Plan& plan) {
  return static_cast<double>(padded_vocab(model, plan)) / plan.tp * model.hidden;
}

double position_parameters(const Model& model) {
  return model.learns_positions() ? static_cast<double>(model.seq) * model.hidden : 0.0;
}

std::int64_t vocabulary_rows(const Model& model, const Plan& plan) {
  const std::int64_t rows = padded_vocab(model, plan) / plan.tp;
  if (plan.vocabulary == 0) return rows;
  const std::int64_t pairs = 2 * plan.pp;
  return (rows + pairs - 1) / pairs * 2;
}

double vocabulary_share(const Model& model, const Plan& plan) {
  return (model.tied_embeddings ? 1.0 : 2.0) * static_cast<double>(vocabulary_rows(model, plan)) *
         model.hidden;
}

bool head_has_copy(const Model& model, const OrderedPlan& plan) {
  if (plan.vocabulary > 0) return false;
  return model.tied_embeddings && plan.pp > 1 && !plan.ends_on_one_rank;
}

double head_share(const Model& model, const OrderedPlan& plan) {
  const bool holds = !model.tied_embeddings || head_has_copy(model, plan);
  return holds ? embedding_share(model, plan) : 0;
}

std::vector<HeldParameters> stage_parameters(const Model& model, const OrderedPlan& plan) {
  std::vector<HeldParameters> sums;
  LayersOfKinds before;
  for (const StageLayers& at : layers_of_stages(model, plan)) {
    LayersOfKinds kinds = kinds_in(model, at.begin, at.count);
    // Most stages equal the one before them.
    sums.push_back(!sums.empty() && kinds == before ? sums.back() : share_of_kinds(kinds, plan));
    before = std::move(kinds);
  }
  if (plan.vocabulary > 0) {
    for (int stage = 0; stage < plan.pp; ++stage)
      sums[stage].dense += vocabulary_share(model, plan);
    sums.front().dense += position_parameters(model);
    return sums;
  }
  sums.front().dense += embedding_share(model, plan) + position_parameters(model);
  sums.back().dense += head_share(model, plan);
  HeldParameters mtp = mtp_share(model, plan);
  mtp.dense += mtp_embedding_share(model, plan);
  sums[plan.mtp_stage()] += mtp;
  return sums;
}

int recomputed_layers(const Plan& plan, int stage_layers) {
  if (plan.recompute != Recompute::Full) return 0;
  return plan.recomputes_alike() ? stage_layers : std::min(plan.recompute_layers, stage_layers);
}

Recompute recompute_of_others(const Plan& plan) {
  return plan.recompute == Recompute::Full ? Recompute::None : plan.recompute;
}

Recompute mtp_recompute(const Plan& plan) {
  return plan.recomputes_alike() ? plan.recompute : Recompute::None;
}

bool recomputes_core(const Model& model, const Plan& plan) {
  return plan.recompute == Recompute::Selective && plan.recompute_modules.core_attn &&
         !plan.flash_attention && model.attends();
}

bool recomputes_mlp(const Model& model, const Plan& plan) {
  const RecomputeModules& modules = plan.recompute_modules;
  return plan.recompute == Recompute::Selective && model.has_mlp &&
         (model.is_moe() ? modules.moe : modules.mlp);
}

bool recomputes_shared(const Model& model, const Plan& plan) {
  return plan.recompute == Recompute::Selective && model.is_moe() && model.shared_expert_ffn > 0 &&
         plan.recompute_modules.shared_experts && !plan.recompute_modules.moe;
}

bool recomputes_nothing(const Plan& plan) {
  return plan.recompute == Recompute::Selective && plan.flash_attention &&
         plan.recompute_modules == RecomputeModules{};
}

int stored_bytes(const Plan& plan) {
  CHECK(bytes_of(plan.precision) > 0);
  return std::max(2, bytes_of(plan.precision));
}

}  // namespace tandem
