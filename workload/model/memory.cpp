// Memory: what the fullest GPU holds at its peak, by Korthikanti et al. 2022 (arXiv 2205.05198) for
// activations and by Adam in mixed precision for the rest.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "workload/model/blocks.h"
#include "workload/model/moe.h"
#include "workload/model/workload.h"

namespace tandem {
namespace {

// Adam's two fp32 moments; and, where parameters have 16 bits, their fp32 originals. With 2 bytes
// of weights and 2 or 4 of gradients that is Megatron's 16 or 18 bytes a parameter.
constexpr double kMomentBytes = 8;
constexpr double kMasterBytes = 4;

// Arrays of a layer that a block keeps, in numbers of the stored type: of each half the inputs of
// its norm and of its first product (s b h each, not cut by tensor parallelism); Q, K, V and the
// projection's input (s b h / tp each); a gated MLP keeps gate, up and their product (s b f / tp
// each), another one two. A scan keeps what went into its convolution and came out, and its gate.
constexpr double kWholeArrays = 2;
constexpr double kScanArrays = 2;
constexpr double kMlpArrays = 2;
constexpr double kGatedMlpArrays = 3;

// fp32 logits of the head, and of a router.
constexpr double kLogitBytes = 4;

// What fused attention keeps of its matrix: a row's log-sum-exp, fp32.
constexpr double kLogSumExpBytes = 4;

double tokens(const Model& model, const Plan& plan) {
  return static_cast<double>(tokens_of(model, plan));
}

double inner_arrays(const Model& model) { return model.gated_mlp ? kGatedMlpArrays : kMlpArrays; }

// Of a mixture of experts: the busiest rank's rows (all tensor ranks' where they share experts) and
// their inner arrays, the copies that come back, and the router's logits.
double expert_bytes(const Model& model, const Plan& plan) {
  if (!model.is_moe()) return 0;
  const double e = stored_bytes(plan);
  const double routed = static_cast<double>(routed_tokens(model, plan));
  const double copies = routed * model.top_k;
  const double row = plan.expert_tensor() * static_cast<double>(model.expert_hidden()) +
                     inner_arrays(model) * model.expert_ffn();
  return e * copies * (expert_load(model, plan) * row + model.expert_hidden()) +
         kLogitBytes * routed * model.experts;
}

// Over how many GPUs lies what tensor parallelism alone does not cut.
double whole_share(const Plan& plan) { return plan.sequence_parallel ? plan.tp : 1; }

// Dropout's masks are a byte a number; models without it (see Model) have none.
double mask_bytes(const Model& model) { return model.uses_rms_norm() ? 0 : 1; }

double log_sum_exp_bytes(const Model& model, const Plan& plan) {
  return plan.flash_attention && model.attends()
             ? kLogSumExpBytes * tokens(model, plan) * model.heads / plan.tp
             : 0;
}

// Of a layer's first half, on all tensor ranks together: Q, K, V, and what goes into the product
// behind them.
double mixer_columns(const Model& model) {
  const Plan whole;
  const auto all = [&](std::int64_t (*columns)(const Model&, const Plan&)) {
    return static_cast<double>(columns(model, whole));
  };
  switch (model.mixer) {
    case Mixer::Heads:
    case Mixer::Latent:
      return all(query_columns) + all(output_columns) + all(key_value_columns);
    case Mixer::Mamba:
    case Mixer::Linear:
      return kScanArrays * (all(query_columns) + all(key_value_columns)) + 2 * all(output_columns);
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

// All but the attention matrices: s b h (10 + 24/t) for GPT.
double kept_bytes(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const double h = model.hidden;
  const double mlp = !model.has_mlp ? 0
                                    : inner_arrays(model) *
                                          (model.is_moe() ? model.shared_expert_ffn : model.ffn());
  const double compressed =
      model.latent() ? model.q_lora_rank + model.kv_lora_rank + model.qk_rope_head_dim : 0;
  const double whole = model.halves() * (kWholeArrays * e + mask_bytes(model)) * h + e * compressed;
  const double cut = e * (mixer_columns(model) + mlp);
  return tokens(model, plan) * (whole / whole_share(plan) + cut / plan.tp) +
         expert_bytes(model, plan) + log_sum_exp_bytes(model, plan);
}

// Softmax's output and, with dropout, its mask and output: 5 b a s^2 / t bytes for GPT. Fused
// attention keeps none of it.
double matrix_bytes(const Model& model, const Plan& plan) {
  if (plan.flash_attention || !model.attends()) return 0;
  const double e = stored_bytes(plan);
  const double mask = mask_bytes(model);
  return (e + mask * (1 + e)) * tokens(model, plan) * model.heads * model.seq / plan.tp;
}

double layer_bytes(const Model& model, const Plan& plan, Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return kept_bytes(model, plan) + matrix_bytes(model, plan);
    case Recompute::Selective:
      return kept_bytes(model, plan);
    case Recompute::Full:
      return tokens(model, plan) * stored_bytes(plan) * model.hidden / whole_share(plan);
  }
  CHECK(false);
  return 0;
}

// What a layer's backward needs beyond what was kept: once a GPU, as layers go one by one.
double recomputed_bytes(const Model& model, const Plan& plan) {
  switch (plan.recompute) {
    case Recompute::None:
      return 0;
    case Recompute::Selective:
      return matrix_bytes(model, plan);
    case Recompute::Full:
      return layer_bytes(model, plan, Recompute::None);
  }
  CHECK(false);
  return 0;
}

// The ends, a microbatch: the embedding's dropout mask; the inputs of the last norm and of the
// head, the logits and their fp32 copy that cross entropy keeps.
double embedding_bytes(const Model& model, const Plan& plan) {
  return mask_bytes(model) * tokens(model, plan) * model.hidden / whole_share(plan);
}

double head_bytes(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const double logits = static_cast<double>(padded_vocab(model, plan)) / plan.tp;
  return tokens(model, plan) *
         (2 * e * model.hidden / whole_share(plan) + (kLogitBytes + e) * logits);
}

// Of `layers` layers from `begin` on.
double stage_bytes(const Model& model, const Plan& plan, int begin, int layers, bool first,
                   bool last) {
  const int recomputed = recomputed_layers(plan, layers);
  const Recompute others = plan.recompute == Recompute::Full ? Recompute::None : plan.recompute;
  double bytes = 0;
  for (const auto& [kind, count] : kinds_in(model, begin, recomputed))
    bytes += count * layer_bytes(*kind, plan, Recompute::Full);
  for (const auto& [kind, count] : kinds_in(model, begin + recomputed, layers - recomputed))
    bytes += count * layer_bytes(*kind, plan, others);
  if (first) bytes += embedding_bytes(model, plan);
  if (last) {
    bytes += (1 + model.mtp_layers) * head_bytes(model, plan);
    if (model.mtp_layers > 0)
      bytes +=
          model.mtp_layers * layer_bytes(model.layer(model.layers - 1), plan, mtp_recompute(plan));
  }
  return bytes;
}

// The layer with the most of something.
template <class Of>
double most_of_layers(const Model& model, const Of& of) {
  double most = 0;
  for (const auto& [kind, count] : kinds_of(model)) most = std::max(most, of(*kind));
  return most;
}

// Of what a GPU holds, what is left of it where ZeRO from stage `stage` on cuts it.
double zero_share(const HeldParameters& held, const OrderedPlan& plan, int stage) {
  if (plan.zero < stage) return held.total();
  return held.dense / plan.data_ranks() + held.expert / plan.expert_data_ranks();
}

// A transfer's two ends: what goes out while the next comes in.
double pipeline_buffers(const Model& model, const Plan& plan) {
  if (plan.pp == 1) return 0;
  const bool cut = plan.sequence_parallel || plan.scatter_gather;
  return 2.0 * static_cast<double>(tensor_group(model, plan).bytes) / (cut ? plan.tp : 1);
}

// Sequence parallelism's whole array; one more a GEMM that overlaps (Transformer Engine's
// userbuffers are allocated for each).
double tensor_buffers(const Model& model, const Plan& plan) {
  const TensorGroup group = tensor_group(model, plan);
  if (!group.sequence_parallel) return 0;
  const auto overlapped = std::ranges::count_if(
      plan.tensor_overlap,
      [](const GemmOverlap& overlap) { return overlap.method != TensorMethod::Off; });
  return static_cast<double>(group.bytes) * static_cast<double>(1 + overlapped);
}

// In the backward, where keys and values go with their gradients: the ring's part in use and the
// one that comes; or both gathered; or what an exchange sends and gets.
double context_buffers(const Model& model, const Plan& plan) {
  const ContextGroup group = context_group(model, plan);
  switch (group.comm) {
    case ContextComm::Ring:
      return 2.0 * 2 * static_cast<double>(group.key_value_bytes);
    case ContextComm::AllGather:
      return 2.0 * group.size * static_cast<double>(group.key_value_bytes);
    case ContextComm::AllToAll:
      return 2.0 * static_cast<double>(group.query_bytes + group.key_value_bytes);
  }
  CHECK(false);
  return 0;
}

double expert_buffers(const Model& model, const Plan& plan) {
  if (plan.ep == 1) return 0;
  return 2.0 * static_cast<double>(expert_group(expert_layer(model), plan).sent_bytes);
}

// ZeRO 2: the largest unit's gradients before they are scattered. 3: also the layer in use and the
// next unit, gathered. Stage 1 gathers in place, into the parameters.
double zero_buffers(const Model& model, const Plan& plan) {
  const double layer =
      most_of_layers(model, [&](const Model& kind) { return layers_share(kind, plan, 1).total(); });
  const double largest = std::max(layer, embedding_share(model, plan) + position_parameters(model));
  const double gradients = plan.zero >= 2 ? largest * bytes_of(plan.gradient_dtype) : 0;
  return gradients + (plan.zero >= 3 ? (layer + largest) * stored_bytes(plan) : 0);
}

double communication_bytes(const Model& model, const Plan& plan) {
  return pipeline_buffers(model, plan) + tensor_buffers(model, plan) +
         (plan.cp == 1
              ? 0
              : most_of_layers(model,
                               [&](const Model& kind) { return context_buffers(kind, plan); })) +
         expert_buffers(model, plan) + zero_buffers(model, plan);
}

}  // namespace

double activation_bytes_per_layer(const Model& model, const Plan& plan) {
  return layer_bytes(model, plan, plan.recompute);
}

MemoryUse peak_memory(const Model& model, const OrderedPlan& plan, const LiveActivations& live) {
  CHECK(!live.ranks.empty());
  const std::vector<int> split = split_layers(model, plan);
  const std::vector<HeldParameters> parameters = stage_parameters(model, plan);
  const int last = static_cast<int>(split.size()) - 1;
  const double optimizer_bytes = kMomentBytes + (bytes_of(plan.precision) < 4 ? kMasterBytes : 0);
  const double communication = communication_bytes(model, plan);
  const double recomputed =
      most_of_layers(model, [&](const Model& kind) { return recomputed_bytes(kind, plan); });
  std::vector<int> begin(split.size(), 0);
  std::partial_sum(split.begin(), split.end() - 1, begin.begin() + 1);
  MemoryUse worst;
  for (std::size_t rank = 0; rank < live.ranks.size(); ++rank) {
    HeldParameters held;
    double activations = 0;
    bool first_here = false, last_here = false, recomputes = false;
    for (const auto& [stage, microbatches] : live.ranks[rank]) {
      const int s = index(stage);
      CHECK(s >= 0 && s <= last && microbatches >= 0);
      first_here |= s == 0;
      last_here |= s == last;
      recomputes |= plan.recompute_layers < 0 || recomputed_layers(plan, split[s]) > 0;
      held.dense += parameters[s].dense;
      held.expert += parameters[s].expert;
      activations += microbatches * stage_bytes(model, plan, begin[s], split[s], s == 0, s == last);
    }
    // Orders that lay the chain out as a V have both ends on one rank: it needs no copy.
    if (head_has_copy(model, plan) && first_here && last_here)
      held.dense -= embedding_share(model, plan);
    if (activations > 0 && recomputes) activations += recomputed;
    const MemoryUse use = {.weights = zero_share(held, plan, 3) * stored_bytes(plan),
                           .gradients = zero_share(held, plan, 2) * bytes_of(plan.gradient_dtype),
                           .optimizer = zero_share(held, plan, 1) * optimizer_bytes,
                           .activations = activations,
                           .communication = communication,
                           .rank = static_cast<int>(rank)};
    if (rank == 0 || use.total() > worst.total()) worst = use;
  }
  return worst;
}

}  // namespace tandem
