// Adds up what the fullest GPU holds at its peak: parameters and Adam's state in mixed precision,
// activations of the microbatches alive (workload/memory/activations.h), and buffers of
// communication. Declared in workload/memory/memory.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "workload/memory/activations.h"
#include "workload/memory/memory.h"
#include "workload/memory/optimizer_state.h"
#include "workload/memory/trainer.h"
#include "workload/model/blocks.h"
#include "workload/model/moe.h"
#include "workload/model/recipe.h"
#include "workload/model/routing.h"

namespace tandem {
namespace {

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

// Bytes of a stage's offloaded activations of one microbatch (`freed`), and of those that are on
// the GPU nevertheless: of the layer at work, and of the module that is being copied. Megatron-LM
// keeps the last layer of the microbatch whose backward comes next, and takes back one module ahead
// of the backward (post_warmup_callback and bulk_reload in
// megatron/core/pipeline_parallel/fine_grained_activation_offload.py at d98e8a64).
struct StageOffload {
  double freed = 0, layer = 0, module = 0;
};

StageOffload stage_offload(const Model& model, const Plan& plan, int begin, int layers, int stage) {
  StageOffload sum;
  if (!plan.offloads_activations()) return sum;
  const auto add = [&](const Model& kind, int count, Recompute recompute) {
    if (count == 0) return;
    const Offloaded layer = offloaded_activations(kind, plan, recompute);
    sum.freed += count * layer.freed;
    sum.layer = std::max(sum.layer, layer.freed);
    sum.module = std::max(sum.module, layer.largest);
  };
  const int offloading = plan.offload_layers > 0 ? std::min(plan.offload_layers, layers) : layers;
  const int recomputed = std::min(recomputed_layers(plan, layers), offloading);
  const Recompute others = plan.recompute == Recompute::Full ? Recompute::None : plan.recompute;
  for (const auto& [kind, count] : kinds_in(model, begin, recomputed))
    add(*kind, count, Recompute::Full);
  for (const auto& [kind, count] : kinds_in(model, begin + recomputed, offloading - recomputed))
    add(*kind, count, others);
  if (plan.offload_layers == 0 && model.mtp_layers > 0 && stage == plan.mtp_stage())
    add(model.layer(model.layers - 1), model.mtp_layers, mtp_recompute(plan));
  sum.module = std::min(sum.module, sum.freed - sum.layer);
  return sum;
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

// Returns the bytes of parameters. A "cut" is the part that ZeRO leaves on a GPU.
//
// Below ZeRO 3: all parameters.
// ZeRO 3: the cut in 16 bits (DeepSpeed, Megatron-FSDP); its fp32 original counts with the
//   optimizer. With reshard_after_forward off also all parameters, which a forward gathered.
// ZeRO 3 in a pipeline: as in PyTorch's FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_param.py),
//   which torchtitan runs. The cut is the fp32 original itself and is cast when it is gathered. So
//   all parameters in 16 bits count here, and the cut does not. In fp32 the cut counts, too.
// hpZ: a second cut in addition.
double parameter_bytes(const HeldParameters& held, const OrderedPlan& plan) {
  const double hpz_cut = plan.zero_hpz > 0 ? held.dense / plan.zero_hpz : 0;
  const double cut = (zero_share(held, plan, plan.zero == 3) + hpz_cut) * stored_bytes(plan);
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

// Returns sequence parallelism's whole array, and one more for each GEMM that overlaps, if the
// trainer allocates these (Transformer Engine's userbuffers).
double tensor_buffers(const Model& model, const Plan& plan) {
  const TensorGroup group = tensor_group(model, plan);
  if (!group.sequence_parallel) return 0;
  const bool has_own = memory_of(trainer_of(plan)).userbuffers;
  const auto overlapped =
      std::ranges::count_if(plan.tensor_overlap, [has_own](const GemmOverlap& overlap) {
        return has_own && overlap.userbuffers && overlap.method != TensorMethod::Off;
      });
  return static_cast<double>(group.bytes) * static_cast<double>(1 + overlapped);
}

// Returns the buffers of the backward, which moves keys and values with their gradients. Ring: the
// part in use and the next one. AllGather: both arrays gathered. AllToAll: the arrays that an
// exchange sends and those that it receives.
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

// Returns the bytes of the tokens that experts get and of those that they return, on the busiest
// rank.
double expert_buffers(const Model& model, const Plan& plan) {
  if (plan.ep == 1) return 0;
  double most = 0;
  for (const auto& [kind, count] : kinds_of(model)) {
    const ExpertGroup group = expert_group(*kind, plan);
    most = std::max(most, static_cast<double>(group.sent_bytes + group.returned_bytes) *
                              peak_expert_load(*kind, plan) / expert_load(*kind, plan));
  }
  return most;
}

// Returns the bytes of a gathered parameter in ZeRO 3's buffers, with its quantized copies. If a
// whole stage stays gathered, parameter_bytes counts the parameters, and only the copies count
// here.
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

// Returns the bytes of the dummy arrays that Transformer Engine returns in place of weight
// gradients that it has already accumulated: one for each shape of a weight. Weights of equal size
// are taken to have the same shape.
double dummy_gradients(const Model& model, const Plan& plan) {
  if (!memory_of(trainer_of(plan)).dummy_gradients) return 0;
  std::vector<double> sizes;
  const auto add = [&](double size) {
    if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  };
  for (const auto& [kind, count] : kinds_of(model)) {
    add(attention_parameters(*kind) / plan.tp);
    if (!kind->is_moe()) {
      add(mlp_parameters(*kind) / plan.tp);
      continue;
    }
    const double rest =
        mlp_parameters(*kind) - router_parameters(*kind) - kind->experts * expert_parameters(*kind);
    add(expert_parameters(*kind) / plan.expert_tensor());
    add(rest / plan.tp);  // the shared expert
  }
  return stored_bytes(plan) * std::reduce(sizes.begin(), sizes.end());
}

// Returns how many more bytes the head's backward needs than its loss does. The backward has the
// gradient of the logits, and a dummy array in place of the weight gradient, which is already
// accumulated (LinearWithGradAccumulationAndAsyncCommunication of Megatron-LM).
double head_backward_bytes(const Model& model, const Plan& plan) {
  if (!memory_of(trainer_of(plan)).dummy_gradients || plan.vocabulary > 0) return 0;
  const double columns = static_cast<double>(padded_vocab(model, plan)) / plan.tp;
  const double tokens = static_cast<double>(tokens_of(model, plan));
  const double backward = stored_bytes(plan) * columns * (tokens + model.hidden);
  return std::max(0.0, backward - logit_bytes(plan) * columns * tokens);
}

// The kinds of communication buffers. DeepSpeed's are not listed, as they depend on a rank's
// parameters.
struct BufferKind {
  const char* name;
  double (*bytes)(const Model& model, const Plan& plan);
};
constexpr BufferKind kBuffers[] = {
    {"buffers of pipeline transfers", pipeline_buffers},
    {"buffers of vocabulary parallelism", vocabulary_buffers},
    {"buffers of sequence parallelism", tensor_buffers},
    {"buffers of context parallelism",
     [](const Model& model, const Plan& plan) {
       if (plan.cp == 1) return 0.0;
       return most_of_layers(model, [&](const Model& kind) { return context_buffers(kind, plan); });
     }},
    {"buffers of the experts' exchange", expert_buffers},
    {"ZeRO's gradients and gathered layers", zero_buffers}};

double communication_bytes(const Model& model, const Plan& plan) {
  double bytes = 0;
  for (const BufferKind& kind : kBuffers) bytes += kind.bytes(model, plan);
  return bytes;
}

// Returns the parameters of a stage outside its layers: of the embedding and the head.
double end_parameters(const Model& model, const OrderedPlan& plan, int stage) {
  const bool is_first = stage == 0, is_last = stage + 1 == plan.stages();
  const double positions = is_first ? position_parameters(model) : 0;
  if (plan.vocabulary > 0) return positions + (stage < plan.pp ? vocabulary_share(model, plan) : 0);
  return positions + (is_first ? embedding_share(model, plan) : 0) +
         (is_last ? head_share(model, plan) : 0) +
         (stage == plan.mtp_stage() ? mtp_embedding_share(model, plan) : 0);
}

// The sums over a rank's stages.
struct RankShare {
  HeldParameters layers, experts, ends;
  double quantized = 0;
  MuonShare muon;
  // Bytes of the activations of all microbatches alive; of these, the embedding's and the head's.
  double kept = 0, embedded = 0, logits = 0;
  double layer_at_work = 0, module_copied = 0;  // offloaded, and on the GPU nevertheless
  // Microbatches alive: in all stages of the rank, in the first stage, in the last one.
  int alive = 0, alive_first = 0, alive_last = 0;
  bool recomputes = false, has_head = false;
};

RankShare rank_share(const Model& model, const OrderedPlan& plan,
                     std::span<const LiveActivations::Entry> live) {
  const std::vector<HeldParameters> held = stage_parameters(model, plan);
  const std::vector<int> split = split_layers(model, plan);
  const std::vector<MuonShare> muon = muon_shares(model, plan);
  bool first_here = false;
  RankShare rank;
  for (const auto& [stage, microbatches] : live) {
    const int s = index(stage);
    const int begin = std::reduce(split.begin(), split.begin() + s);
    const double at_ends = end_parameters(model, plan, s);
    rank.ends.dense += at_ends;
    rank.layers.dense += held[s].dense - at_ends;
    rank.experts.expert += held[s].expert;
    add_share(muon[s], &rank.muon);
    rank.quantized += quantized_bytes(model, plan, begin, split[s]);
    rank.recomputes |= plan.recompute_layers < 0 || recomputed_layers(plan, split[s]) > 0;
    rank.alive += microbatches;
    const StageOffload offload = stage_offload(model, plan, begin, split[s], s);
    rank.kept += microbatches * (stage_bytes(model, plan, begin, split[s], s) - offload.freed);
    if (microbatches > 0) {
      rank.layer_at_work = std::max(rank.layer_at_work, offload.layer);
      rank.module_copied = std::max(rank.module_copied, offload.module);
    }
    if (s == 0) {
      first_here = true;
      rank.alive_first += microbatches;
      rank.embedded += microbatches * embedding_activations(model, plan);
    }
    if (s + 1 == plan.stages()) {
      rank.has_head = true;
      rank.alive_last += microbatches;
      rank.logits += microbatches * (1 + model.mtp_layers) * head_activations(model, plan);
    }
  }
  if (first_here && rank.has_head && head_has_copy(model, plan))
    rank.ends.dense -= embedding_share(model, plan);
  return rank;
}

// Returns how many more bytes of activations the rank with the busiest experts has than a rank
// whose experts get the mean number of tokens.
double beyond_mean(const Model& model, const OrderedPlan& plan,
                   std::span<const LiveActivations::Entry> live) {
  if (!model.is_moe()) return 0;
  const Model even = evenly_routed(model);
  return rank_share(model, plan, live).kept - rank_share(even, plan, live).kept;
}

// Collects the parts of a rank's memory, without those of 0 bytes.
class PartList {
 public:
  void add(const char* kind, std::string name, double bytes) {
    if (bytes > 0) parts_.push_back({kind, std::move(name), bytes});
  }
  void add_microbatches(const char* name, int microbatches, double bytes) {
    add("activations",
        fmt::format("{}, {} microbatch{}", name, microbatches, microbatches == 1 ? "" : "es"),
        bytes);
  }
  double sum(const std::string& kind) const {
    double bytes = 0;
    for (const MemoryPart& part : parts_) bytes += part.kind == kind ? part.bytes : 0;
    return bytes;
  }
  std::vector<MemoryPart> take() { return std::move(parts_); }

 private:
  std::vector<MemoryPart> parts_;
};

}  // namespace

PlanMemory::PlanMemory(const Model& model, const OrderedPlan& plan)
    : plan_(plan),
      parameters_(stage_parameters(model, plan)),
      muon_(muon_shares(model, plan)),
      communication_(communication_bytes(model, plan) + dummy_gradients(model, plan)),
      head_(head_activations(model, plan)),
      head_backward_(head_backward_bytes(model, plan)),
      recomputed_(most_of_layers(
          model, [&](const Model& kind) { return recomputed_activations(kind, plan); })),
      output_(output_activations(model, plan)),
      traded_(traded_activations(model, plan)),
      copy_(head_has_copy(model, plan) ? embedding_share(model, plan) : 0) {
  const std::vector<int> split = split_layers(model, plan);
  LayersOfKinds before;
  int begin = 0;
  for (int s = 0; s < plan.stages(); ++s) {
    LayersOfKinds kinds = kinds_in(model, begin, split[s]);
    const bool is_as_before = kinds == before && plan.recompute_layers < 0 &&
                              plan.offload_layers == 0 && has_layers_alone(model, plan, s - 1) &&
                              has_layers_alone(model, plan, s);
    if (is_as_before) {
      stages_.push_back(stages_.back());
    } else {
      const StageOffload offload = stage_offload(model, plan, begin, split[s], s);
      stages_.push_back(
          {.microbatch = stage_bytes(model, plan, begin, split[s], s) - offload.freed,
           .layer_at_work = offload.layer,
           .module_copied = offload.module,
           .quantized = quantized_bytes(model, plan, begin, split[s]),
           .recomputes = plan.recompute_layers < 0 || recomputed_layers(plan, split[s]) > 0});
    }
    before = std::move(kinds);
    begin += split[s];
  }
}

MemoryUse PlanMemory::of_rank(std::span<const LiveActivations::Entry> live, int outputs) const {
  HeldParameters held;
  MuonShare muon;
  double activations = 0, at_work = 0, copied = 0, quantized = 0;
  bool first_here = false, last_here = false, recomputes = false, head_at_work = false;
  for (const auto& [stage, microbatches] : live) {
    const auto s = static_cast<std::size_t>(index(stage));
    CHECK(s < stages_.size() && microbatches >= 0);
    first_here |= s == 0;
    last_here |= s + 1 == stages_.size();
    recomputes |= stages_[s].recomputes;
    held.dense += parameters_[s].dense;
    held.expert += parameters_[s].expert;
    add_share(muon_[s], &muon);
    quantized += stages_[s].quantized;
    activations += microbatches * stages_[s].microbatch;
    if (microbatches == 0) continue;
    head_at_work |= s + 1 == stages_.size();
    at_work = std::max(at_work, stages_[s].layer_at_work);
    copied = std::max(copied, stages_[s].module_copied);
  }
  // The head's arrays are gone when the first module is copied back.
  activations += at_work + (head_at_work ? std::max(0.0, copied - head_) : copied);
  // Orders that lay the stages out as a V have the first and the last one on one rank. The head
  // then needs no copy of a tied embedding.
  if (first_here && last_here) held.dense -= copy_;
  if (activations > 0 && recomputes) activations += recomputed_;
  if (activations > 0) activations += traded_;
  activations += outputs * output_;
  if (activations > 0 && last_here) activations += head_backward_;
  // In a pipeline, gradients are added up uncut until the last microbatch, also under ZeRO 2 and 3
  // (FSDP2's unsharded_accumulated_grad).
  const double gradients = zero_share(held, plan_, plan_.scatters_each_microbatch());
  const double cut = zero_share(held, plan_, plan_.zero >= 1);
  const double padding = muon.padding.total();
  return {.weights = parameter_bytes(held, plan_) + quantized + padding * stored_bytes(plan_),
          .gradients = (gradients + padding) * bytes_of(plan_.gradient_dtype),
          .optimizer = state_bytes(plan_, {held, muon.held, muon.updated}),
          .activations = std::max(activations, muon_step_bytes(plan_, held, muon)),
          .communication =
              communication_ + deepspeed_buckets(plan_, held.total()) + deepspeed_step(plan_, cut)};
}

std::vector<MemoryPart> memory_parts(const Model& model, const OrderedPlan& plan,
                                     std::span<const LiveActivations::Entry> live, int outputs) {
  const RankShare rank = rank_share(model, plan, live);
  const HeldParameters all = {rank.layers.dense + rank.ends.dense, rank.experts.expert};
  PartList parts;
  const MuonShare& muon = rank.muon;
  const std::pair<const char*, UpdatedParameters> pieces[] = {
      {"layers", {rank.layers, {muon.held.dense}, {muon.updated.dense}}},
      {"experts", {rank.experts, {0, muon.held.expert}, {0, muon.updated.expert}}},
      {"embedding and head", {rank.ends, {}, {}}}};
  for (const auto& [of, piece] : pieces)
    parts.add("weights", fmt::format("weights of {}", of), parameter_bytes(piece.held, plan));
  parts.add("weights", "quantized copies of weights", rank.quantized);
  for (const auto& [of, piece] : pieces)
    parts.add("gradients", fmt::format("gradients of {}", of),
              zero_share(piece.held, plan, plan.scatters_each_microbatch()) *
                  bytes_of(plan.gradient_dtype));
  for (const auto& [of, piece] : pieces)
    parts.add("optimizer", fmt::format("optimizer's state of {}", of), state_bytes(plan, piece));
  const double padding = muon.padding.total();
  parts.add("weights", "padding of Muon's buffers", padding * stored_bytes(plan));
  parts.add("gradients", "padding of Muon's buffers", padding * bytes_of(plan.gradient_dtype));
  const double uneven = beyond_mean(model, plan, live);
  parts.add_microbatches("activations of layers", rank.alive,
                         rank.kept - rank.embedded - rank.logits - uneven);
  parts.add_microbatches("tokens of the busiest experts beyond the mean", rank.alive, uneven);
  parts.add_microbatches("dropout's mask of the embedding", rank.alive_first, rank.embedded);
  parts.add_microbatches("logits and the head's input", rank.alive_last, rank.logits);
  parts.add_microbatches("logits of vocabulary parallelism", outputs,
                         outputs * output_activations(model, plan));
  const double head = rank.alive_last > 0 ? head_activations(model, plan) : 0;
  const double under_way = rank.layer_at_work + std::max(0.0, rank.module_copied - head);
  parts.add("activations", "offloaded activations under way", under_way);
  const double kept = rank.kept + under_way;
  if (kept + outputs > 0 && rank.has_head)
    parts.add("activations", "the head's backward", head_backward_bytes(model, plan));
  if (kept > 0)
    parts.add("activations", "a layer of the pass that runs beside",
              traded_activations(model, plan));
  if (kept > 0 && rank.recomputes)
    parts.add("activations", "a recomputed layer", most_of_layers(model, [&](const Model& kind) {
                return recomputed_activations(kind, plan);
              }));
  parts.add("activations", "Muon's step, beyond activations",
            muon_step_bytes(plan, all, muon) - parts.sum("activations"));
  for (const BufferKind& kind : kBuffers)
    parts.add("communication", kind.name, kind.bytes(model, plan));
  parts.add("communication", "Transformer Engine's dummy gradients", dummy_gradients(model, plan));
  parts.add("communication", "DeepSpeed's buckets", deepspeed_buckets(plan, all.total()));
  parts.add("communication", "fp32 gradients of DeepSpeed's step",
            deepspeed_step(plan, zero_share(all, plan, plan.zero >= 1)));
  return parts.take();
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
