// Memory: what the fullest GPU holds at its peak, by Korthikanti et al. 2022 (arXiv 2205.05198) for
// activations and by Adam in mixed precision for the rest.
#include <algorithm>

#include "base/check.h"
#include "workload/workload.h"

namespace tandem {
namespace {

// Adam's two fp32 moments; and, where parameters have 16 bits, their fp32 originals. With 2 bytes
// of weights and 2 or 4 of gradients that is Megatron's 16 or 18 bytes a parameter.
constexpr double kMomentBytes = 8;
constexpr double kMasterBytes = 4;

// Arrays of a layer that a block keeps, in numbers of the stored type: the inputs of both norms and
// of the QKV and first MLP products (s b h each, not cut by tensor parallelism); Q and the
// projection's input (s b h / tp); a gated MLP keeps gate, up and their product (s b f / tp each),
// another one two.
constexpr double kWholeArrays = 4;
constexpr double kQueryArrays = 2;
constexpr double kMlpArrays = 2;
constexpr double kGatedMlpArrays = 3;

// fp32 logits of the head.
constexpr double kLogitBytes = 4;

double tokens(const Model& model, const Plan& plan) {
  return static_cast<double>(model.seq) * plan.micro_batch;
}

// Over how many GPUs lies what tensor parallelism alone does not cut.
double whole_share(const Plan& plan) { return plan.sequence_parallel ? plan.tp : 1; }

// Dropout's masks are a byte a number; models without it (see Model) have none.
double mask_bytes(const Model& model) { return model.gated_mlp ? 0 : 1; }

// All but the attention matrices: s b h (10 + 24/t) for GPT.
double layer_bytes(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const double h = model.hidden;
  const double kv = static_cast<double>(model.key_value_heads()) * model.head_size();
  const double mlp = (model.gated_mlp ? kGatedMlpArrays : kMlpArrays) * model.ffn();
  const double whole = (kWholeArrays * e + 2 * mask_bytes(model)) * h;
  const double cut = e * (kQueryArrays * h + 2 * kv + mlp);
  return tokens(model, plan) * (whole / whole_share(plan) + cut / plan.tp);
}

// Softmax's output and, with dropout, its mask and output: 5 b a s^2 / t bytes for GPT.
double matrix_bytes(const Model& model, const Plan& plan) {
  const double e = stored_bytes(plan);
  const double mask = mask_bytes(model);
  return (e + mask * (1 + e)) * tokens(model, plan) * model.heads * model.seq / plan.tp;
}

// What a layer's backward needs beyond what was kept: once a GPU, as layers go one by one.
double recomputed_bytes(const Model& model, const Plan& plan) {
  switch (plan.recompute) {
    case Recompute::None:
      return 0;
    case Recompute::Selective:
      return matrix_bytes(model, plan);
    case Recompute::Full:
      return layer_bytes(model, plan) + matrix_bytes(model, plan);
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

}  // namespace

double activation_bytes_per_layer(const Model& model, const Plan& plan) {
  switch (plan.recompute) {
    case Recompute::None:
      return layer_bytes(model, plan) + matrix_bytes(model, plan);
    case Recompute::Selective:
      return layer_bytes(model, plan);
    case Recompute::Full:
      return tokens(model, plan) * stored_bytes(plan) * model.hidden / whole_share(plan);
  }
  CHECK(false);
  return 0;
}

MemoryUse peak_memory(const Model& model, const Plan& plan, const LiveActivations& live) {
  CHECK(!live.ranks.empty());
  const std::vector<int> split = split_layers(model, plan);
  const std::vector<double> parameters = stage_parameters(model, plan);
  const int last = static_cast<int>(split.size()) - 1;
  const double head_copy = static_cast<double>(padded_vocab(model, plan)) / plan.tp * model.hidden;
  const double optimizer_bytes = kMomentBytes + (bytes_of(plan.precision) < 4 ? kMasterBytes : 0);
  MemoryUse worst;
  for (std::size_t rank = 0; rank < live.ranks.size(); ++rank) {
    double held = 0, activations = 0;
    bool first_here = false, last_here = false;
    for (const auto& [stage, microbatches] : live.ranks[rank]) {
      const int s = index(stage);
      CHECK(s >= 0 && s <= last && microbatches >= 0);
      first_here |= s == 0;
      last_here |= s == last;
      held += parameters[s];
      double bytes = split[s] * activation_bytes_per_layer(model, plan);
      if (s == 0) bytes += embedding_bytes(model, plan);
      if (s == last) bytes += head_bytes(model, plan);
      activations += microbatches * bytes;
    }
    // Orders that lay the chain out as a V have both ends on one rank: it needs no copy.
    if (plan.pp > 1 && first_here && last_here) held -= head_copy;
    if (activations > 0) activations += recomputed_bytes(model, plan);
    const MemoryUse use = {.weights = held * stored_bytes(plan),
                           .gradients = held * bytes_of(plan.gradient_dtype),
                           .optimizer = held * optimizer_bytes,
                           .activations = activations,
                           .rank = static_cast<int>(rank)};
    if (rank == 0 || use.total() > worst.total()) worst = use;
  }
  return worst;
}

}  // namespace tandem
