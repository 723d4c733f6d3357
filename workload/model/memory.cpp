// Adds up what the fullest GPU holds at its peak: parameters and Adam's state in mixed precision,
// activations of the microbatches alive (workload/model/activations.h), and buffers of
// communication. Declared in workload/model/workload.h.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "workload/model/activations.h"
#include "workload/model/blocks.h"
#include "workload/model/moe.h"
#include "workload/model/recipe.h"
#include "workload/model/workload.h"

namespace tandem {
namespace {

// Adam's moments, and the fp32 originals of parameters in 16 bits. With 2 bytes of weights and 2 or
// 4 of gradients these are Megatron's 16 or 18 bytes a parameter.
constexpr double kMoments = 2;
constexpr double kMasterBytes = 4;

// Returns a stage's activations of one microbatch; it has `layers` layers from `begin` on.
double stage_bytes(const Model& model, const Plan& plan, int begin, int layers, int stage) {
  const int recomputed = recomputed_layers(plan, layers);
  const Recompute others = plan.recompute == Recompute::Full ? Recompute::None : plan.recompute;
  double bytes = 0;
  for (const auto& [kind, count] : kinds_in(model, begin, recomputed))
    bytes += count * layer_activations(*kind, plan, Recompute::Full);
  for (const auto& [kind, count] : kinds_in(model, begin + recomputed, layers - recomputed))
    bytes += count * layer_activations(*kind, plan, others);
  if (stage == 0) bytes += embedding_activations(model, plan);
  if (stage + 1 == plan.stages()) bytes += (1 + model.mtp_layers) * head_activations(model, plan);
  if (model.mtp_layers > 0 && stage == plan.mtp_stage())
    bytes += model.mtp_layers *
             layer_activations(model.layer(model.layers - 1), plan, mtp_recompute(plan));
  return bytes;
}

// Says whether the stage has no embedding, no head and no layer that predicts a further token.
bool has_layers_alone(const Model& model, const Plan& plan, int stage) {
  return stage > 0 && stage + 1 < plan.stages() &&
         (model.mtp_layers == 0 || stage != plan.mtp_stage());
}

// Returns the bytes of the quantized copies of linear layers' weights, row by row and column by
// column, which are kept for the whole iteration. Parameters that are gathered in fp8 have no
// 16-bit form beside them. Where ZeRO 3 gathers for each microbatch, only gathered parameters have
// copies, and gathered_bytes counts them.
double quantized_bytes(const Model& model, const Plan& plan, int begin, int layers) {
  const std::optional<Recipe> recipe = recipe_of(plan);
  if (!recipe || plan.gathers_each_microbatch()) return 0;
  const double spared = plan.fp8_param_gather ? stored_bytes(plan) : 0;
  return (recipe->copies_bytes() - spared) * linear_share(model, plan, begin, layers);
}

// Returns the largest value of `of` over kinds of layers.
template <class Of>
double most_of_layers(const Model& model, const Of& of) {
  double most = 0;
  for (const auto& [kind, count] : kinds_of(model)) most = std::max(most, of(*kind));
  return most;
}

// Returns how many of the parameters `held` are on a GPU; fewer if ZeRO cuts them.
double zero_share(const HeldParameters& held, const OrderedPlan& plan, bool is_cut) {
  if (!is_cut) return held.total();
  return held.dense / plan.shard_ranks() + held.expert / plan.expert_shard_ranks();
}

// Returns the bytes of parameters. A "cut" is the part that ZeRO leaves on a GPU.
//
// Below ZeRO 3: whole.
// ZeRO 3: the cut in 16 bits (DeepSpeed, Megatron-FSDP); its fp32 original counts with the
//   optimizer. With reshard_after_forward off also the whole, as a forward gathered it.
// ZeRO 3 in a pipeline: as PyTorch's FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_param.py, as
//   torchtitan runs it). The cut is the fp32 original itself and is cast when it is gathered. So
//   only the whole in 16 bits counts here. A plan in fp32 has no original, so its cut counts here.
// hpZ: a second cut beside the first.
double parameter_bytes(const HeldParameters& held, const OrderedPlan& plan) {
  const double second = plan.zero_hpz > 0 ? held.dense / plan.zero_hpz : 0;
  const double cut = (zero_share(held, plan, plan.zero == 3) + second) * stored_bytes(plan);
  if (plan.zero < 3 || plan.gathers_each_pass()) return cut;
  const bool has_original = plan.pp > 1 && bytes_of(plan.precision) < 4;
  return held.total() * stored_bytes(plan) + (has_original ? 0 : cut);
}

// Returns two buffers for a transfer: one is sent while the next is received.
double pipeline_buffers(const Model& model, const Plan& plan) {
  if (plan.pp == 1) return 0;
  const bool cut = plan.sequence_parallel || plan.scatter_gather;
  const int arrays = plan.mtp_before_loss ? 1 + model.mtp_layers : 1;
  return 2.0 * arrays * static_cast<double>(tensor_group(model, plan).bytes) / (cut ? plan.tp : 1);
}

// Returns the buffers in which the pipeline's ranks send each other four arrays of vocabulary
// parallelism: the looked-up embedding, the last stage's output, and both gradients.
double vocabulary_buffers(const Model& model, const Plan& plan) {
  if (plan.vocabulary == 0) return 0;
  return 4.0 * static_cast<double>(tensor_group(model, plan).bytes) /
         (plan.sequence_parallel ? plan.tp : 1);
}

// Returns sequence parallelism's whole array, and one more for each GEMM that overlaps (Transformer
// Engine's userbuffers are allocated for each).
double tensor_buffers(const Model& model, const Plan& plan) {
  const TensorGroup group = tensor_group(model, plan);
  if (!group.sequence_parallel) return 0;
  const auto overlapped = std::ranges::count_if(
      plan.tensor_overlap,
      [](const GemmOverlap& overlap) { return overlap.method != TensorMethod::Off; });
  return static_cast<double>(group.bytes) * static_cast<double>(1 + overlapped);
}

// Returns the buffers of the backward, where keys and values go with their gradients: the ring's
// part in use and the next one; or both gathered; or what an exchange sends and receives.
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
  const ExpertGroup group = expert_group(expert_layer(model), plan);
  return static_cast<double>(group.sent_bytes + group.returned_bytes);
}

// Returns the bytes of a parameter in a buffer of gathered ones, with its quantized copies. Where a
// whole stage stays gathered, parameter_bytes has counted it, and only the copies are left.
double gathered_bytes(const Plan& plan) {
  if (!plan.gathers_each_microbatch()) return 0;
  const std::optional<Recipe> recipe = recipe_of(plan);
  return (plan.gathers_each_pass() ? stored_bytes(plan) : 0) +
         (recipe ? recipe->copies_bytes() : 0);
}

// Returns ZeRO's buffers. A unit is a layer, or the embedding. ZeRO 1 has none: it gathers into the
// parameters. ZeRO 2 has the largest unit's gradients, laid out anew to be scattered. ZeRO 3 also
// has the layer in use and the next unit, gathered.
double zero_buffers(const Model& model, const Plan& plan) {
  const double layer = most_of_layers(
      model, [&](const Model& kind) { return share_of_equal_layers(kind, plan, 1).total(); });
  const double ends =
      plan.vocabulary > 0 ? vocabulary_share(model, plan) : embedding_share(model, plan);
  const double largest = std::max(layer, ends + position_parameters(model));
  const double gradients = plan.zero >= 2 ? largest * bytes_of(plan.gradient_dtype) : 0;
  return gradients + (layer + largest) * gathered_bytes(plan);
}

double communication_bytes(const Model& model, const Plan& plan) {
  return pipeline_buffers(model, plan) + vocabulary_buffers(model, plan) +
         tensor_buffers(model, plan) +
         (plan.cp == 1
              ? 0
              : most_of_layers(model,
                               [&](const Model& kind) { return context_buffers(kind, plan); })) +
         expert_buffers(model, plan) + zero_buffers(model, plan);
}

}  // namespace

PlanMemory::PlanMemory(const Model& model, const OrderedPlan& plan)
    : plan_(plan),
      parameters_(stage_parameters(model, plan)),
      optimizer_bytes_(kMoments * bytes_of(plan.moment_dtype) +
                       (bytes_of(plan.precision) < 4 ? kMasterBytes : 0)),
      communication_(communication_bytes(model, plan)),
      recomputed_(most_of_layers(
          model, [&](const Model& kind) { return recomputed_activations(kind, plan); })),
      output_(output_activations(model, plan)),
      copy_(head_has_copy(model, plan) ? embedding_share(model, plan) : 0) {
  const std::vector<int> split = split_layers(model, plan);
  LayersOfKinds before;
  int begin = 0;
  for (int s = 0; s < plan.stages(); ++s) {
    LayersOfKinds kinds = kinds_in(model, begin, split[s]);
    const bool is_as_before = kinds == before && plan.recompute_layers < 0 &&
                              has_layers_alone(model, plan, s - 1) &&
                              has_layers_alone(model, plan, s);
    stages_.push_back(is_as_before
                          ? stages_.back()
                          : StageBytes{.microbatch = stage_bytes(model, plan, begin, split[s], s),
                                       .quantized = quantized_bytes(model, plan, begin, split[s]),
                                       .recomputes = plan.recompute_layers < 0 ||
                                                     recomputed_layers(plan, split[s]) > 0});
    before = std::move(kinds);
    begin += split[s];
  }
}

MemoryUse PlanMemory::of_rank(std::span<const LiveActivations::Entry> live, int outputs) const {
  HeldParameters held;
  double activations = 0, quantized = 0;
  bool first_here = false, last_here = false, recomputes = false;
  for (const auto& [stage, microbatches] : live) {
    const auto s = static_cast<std::size_t>(index(stage));
    CHECK(s < stages_.size() && microbatches >= 0);
    first_here |= s == 0;
    last_here |= s + 1 == stages_.size();
    recomputes |= stages_[s].recomputes;
    held.dense += parameters_[s].dense;
    held.expert += parameters_[s].expert;
    quantized += stages_[s].quantized;
    activations += microbatches * stages_[s].microbatch;
  }
  // Orders that lay the stages out as a V have the first and the last one on one rank. The head
  // then needs no copy of a tied embedding.
  if (first_here && last_here) held.dense -= copy_;
  if (activations > 0 && recomputes) activations += recomputed_;
  activations += outputs * output_;
  // In a pipeline, gradients are added up uncut until the last microbatch, also under ZeRO 2 and 3
  // (FSDP2's unsharded_accumulated_grad).
  const double gradients = zero_share(held, plan_, plan_.scatters_each_microbatch());
  return {.weights = parameter_bytes(held, plan_) + quantized,
          .gradients = gradients * bytes_of(plan_.gradient_dtype),
          .optimizer = zero_share(held, plan_, plan_.zero >= 1) * optimizer_bytes_ *
                       (1 - plan_.optimizer_offload),
          .activations = activations,
          .communication = communication_};
}

MemoryUse peak_memory(const Model& model, const OrderedPlan& plan, const LiveActivations& live) {
  CHECK(!live.ranks.empty());
  const PlanMemory memory(model, plan);
  MemoryUse worst;
  for (std::size_t rank = 0; rank < live.ranks.size(); ++rank) {
    MemoryUse use =
        memory.of_rank(live.ranks[rank], rank < live.outputs.size() ? live.outputs[rank] : 0);
    use.rank = static_cast<int>(rank);
    if (rank == 0 || use.total() > worst.total()) worst = use;
  }
  return worst;
}

}  // namespace tandem
