// Adds up what the fullest GPU holds at its peak: parameters and Adam's state in mixed precision,
// activations of the microbatches alive (activations.h), and buffers of communication (buffers.h).
#include "workload/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "workload/memory/activations.h"
#include "workload/memory/buffers.h"
#include "workload/memory/trainer.h"
#include "workload/model/blocks.h"
#include "workload/model/recipe.h"
#include "workload/model/routing.h"

namespace tandem {
namespace {

// Calls visit(kind, layers of it, how they are recomputed) for the stage's first `count` layers.
template <class Visit>
void visit_layers(const Model& model, const Plan& plan, const StageLayers& at, int count,
                  const Visit& visit) {
  const int recomputed = std::min(recomputed_layers(plan, at.count), count);
  for (const auto& [kind, layers] : kinds_in(model, at.begin, recomputed))
    visit(*kind, layers, Recompute::Full);
  for (const auto& [kind, layers] : kinds_in(model, at.begin + recomputed, count - recomputed))
    visit(*kind, layers, recompute_of_others(plan));
}

// Returns a stage's activations of one microbatch.
double stage_activations(const Model& model, const Plan& plan, const StageLayers& at) {
  double bytes = 0;
  visit_layers(model, plan, at, at.count, [&](const Model& kind, int layers, Recompute recompute) {
    bytes += layers * layer_activations(kind, plan, recompute);
  });
  if (at.stage == 0) bytes += embedding_activations(model, plan);
  if (at.stage + 1 == plan.stages())
    bytes += (1 + model.mtp_layers) * head_activations(model, plan);
  if (model.mtp_layers > 0 && at.stage == plan.mtp_stage())
    bytes += model.mtp_layers *
             layer_activations(model.layer(model.layers - 1), plan, mtp_recompute(plan));
  return bytes;
}

// Returns a stage's activations of one microbatch between its input and its weight gradient.
double stage_stash(const Model& model, const Plan& plan, const StageLayers& at) {
  double bytes = 0;
  for (const auto& [kind, layers] : kinds_in(model, at.begin, at.count))
    bytes += layers * stashed_activations(*kind, plan);
  if (at.stage + 1 == plan.stages())
    bytes += (1 + model.mtp_layers) * stashed_head_activations(model, plan);
  if (model.mtp_layers > 0 && at.stage == plan.mtp_stage())
    bytes += model.mtp_layers * stashed_activations(model.layer(model.layers - 1), plan);
  return bytes;
}

// Subtracts a microbatch's offloaded activations from `microbatch`. Two parts of them are on the
// GPU nevertheless and count once a rank: the layer at work (Megatron-LM keeps the last layer of
// the microbatch whose backward comes next), and the module that is copied back one ahead of the
// backward (post_warmup_callback and bulk_reload in
// megatron/core/pipeline_parallel/fine_grained_activation_offload.py at d98e8a64). Four layers with
// modules of 3 and 1 GB: microbatch -16, layer_at_work 4, module_copied 3. One layer: -4, 4, 0.
void offload(const Model& model, const Plan& plan, const StageLayers& at, StageMemory* stage) {
  double freed = 0;
  const auto add = [&](const Model& kind, int layers, Recompute recompute) {
    if (layers == 0) return;
    const Offloaded layer = offloaded_activations(kind, plan, recompute);
    freed += layers * layer.freed;
    stage->layer_at_work = std::max(stage->layer_at_work, layer.freed);
    stage->module_copied = std::max(stage->module_copied, layer.largest);
  };
  const bool by_layer = plan.offload_layers > 0;
  const int offloading = by_layer ? std::min(plan.offload_layers, at.count) : at.count;
  visit_layers(model, plan, at, offloading, add);
  if (!by_layer && model.mtp_layers > 0 && at.stage == plan.mtp_stage())
    add(model.layer(model.layers - 1), model.mtp_layers, mtp_recompute(plan));
  stage->module_copied = std::min(stage->module_copied, freed - stage->layer_at_work);
  stage->microbatch -= freed;
}

// Says whether the stage has no embedding, no head and no layer that predicts a further token.
bool has_layers_alone(const Model& model, const Plan& plan, int stage) {
  const bool predicts = model.mtp_layers > 0 && stage == plan.mtp_stage();
  return stage > 0 && stage + 1 < plan.stages() && !predicts;
}

// Returns the bytes of the two quantized copies of linear layers' weights, row by row and column by
// column, which are kept for the whole iteration. With fp8_param_gather the 16-bit weights that
// parameter_bytes() counts do not exist, so their bytes are subtracted. If ZeRO 3 gathers for each
// pass, or in 16 bits for each microbatch, only the layer in use has copies, which gathered_bytes()
// counts.
double quantized_bytes(const Model& model, const Plan& plan, const StageLayers& at) {
  const std::optional<Recipe> recipe = recipe_of(plan);
  const bool keeps = plan.fp8_param_gather && !plan.gathers_each_pass();
  if (!recipe || (plan.gathers_each_microbatch() && !keeps)) return 0;
  const double spared = plan.fp8_param_gather ? stored_bytes(plan) : 0;
  return (recipe->copies_bytes() - spared) * linear_share(model, plan, at.begin, at.count);
}

// Says whether the shard of ZeRO 3 is the fp32 original, so that a 16-bit parameter exists only
// while it is gathered: in PyTorch's FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_param.py),
// and so in all pipelines under ZeRO 3, which torchtitan alone has. Training in fp32 has no
// originals.
bool shards_originals(const Plan& plan) {
  if (bytes_of(plan.precision) == 4) return false;
  return plan.pp > 1 || memory_of(trainer_of(plan)).shards_originals;
}

// Returns the bytes of parameters, without fp32 originals, which count with the optimizer.
double parameter_bytes(const HeldParameters& held, const OrderedPlan& plan) {
  const double all = held.total() * stored_bytes(plan);
  if (plan.zero < 3) return all;
  const double shard =
      shards_originals(plan) ? 0 : zero_share(held, plan, /*is_cut=*/true) * stored_bytes(plan);
  // reshard_after_forward is off, or a pipeline gathers once an iteration: all that a forward
  // gathered stays for the backward.
  if (!plan.gathers_each_pass()) return all + shard;
  // The shard, and hpZ's, which experts have if each rank holds all of them (ep = 1): then their
  // ZeRO group is that of the dense parameters. Units in use are gathered in buffers (buffers.h).
  const double cut_again = plan.ep == 1 ? held.total() : held.dense;
  const double hpz_shard = plan.zero_hpz > 0 ? cut_again / plan.zero_hpz : 0;
  return shard + hpz_shard * stored_bytes(plan);
}

// Adam has two moments, and an fp32 original of each 16-bit parameter (with param_remainders only
// its lower half). With 2 bytes of weights and 2 or 4 of gradients this makes Megatron's 16 or 18
// bytes a parameter.
constexpr double kMoments = 2;
constexpr double kMasterBytes = 4, kRemainderBytes = 2;

double optimizer_bytes(const Plan& plan) {
  const double originals = plan.param_remainders ? kRemainderBytes : kMasterBytes;
  return kMoments * bytes_of(plan.moment_dtype) + (bytes_of(plan.precision) < 4 ? originals : 0);
}

struct UpdatedParameters {
  HeldParameters held;  // all parameters on a GPU
  HeldParameters muon;  // of these, Muon's
  HeldParameters own;   // Muon's parameters that the fullest GPU updates
};

// Returns the bytes of both optimizers' state.
double state_bytes(const OrderedPlan& plan, const UpdatedParameters& parameters) {
  const bool is_cut = plan.zero >= 1;
  const double adam =
      zero_share(parameters.held, plan, is_cut) - zero_share(parameters.muon, plan, is_cut);
  return adam * optimizer_bytes(plan) * (1 - plan.optimizer_offload) +
         parameters.own.total() * muon_state_bytes(plan);
}

// Returns the bytes that Muon's step holds, when activations are already freed: its temporary
// arrays, and fp32 copies of narrower gradients (Float16OptimizerWithFloat16Params of Megatron-LM).
// 0 without Muon.
double muon_step_bytes(const OrderedPlan& plan, const HeldParameters& held, const MuonShare& muon) {
  const bool is_wide = !plan.muon || bytes_of(plan.gradient_dtype) == 4;
  return muon.scratch_bytes + (is_wide ? 0 : 4 * zero_share(held, plan, plan.zero >= 1));
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

// Returns a stage's memory without parameters.
StageMemory stage_memory(const Model& model, const Plan& plan, const StageLayers& at) {
  StageMemory stage{.microbatch = stage_activations(model, plan, at),
                    .stashed = stage_stash(model, plan, at),
                    .quantized = quantized_bytes(model, plan, at),
                    .recomputes = plan.recomputes_alike() || recomputed_layers(plan, at.count) > 0};
  if (plan.offloads_activations()) offload(model, plan, at, &stage);
  return stage;
}

std::vector<StageMemory> stage_memories(const Model& model, const OrderedPlan& plan) {
  const std::vector<HeldParameters> held = stage_parameters(model, plan);
  const std::vector<MuonShare> muon = muon_shares(model, plan);
  std::vector<StageMemory> stages;
  // Otherwise only a stage's first layers are recomputed or offloaded, and their order counts.
  const bool treats_alike = plan.recomputes_alike() && plan.offload_layers == 0;
  LayersOfKinds before;
  for (const StageLayers& at : layers_of_stages(model, plan)) {
    LayersOfKinds kinds = kinds_in(model, at.begin, at.count);
    // A stage that has just the layers of the stage before it holds as much.
    const bool is_as_before = treats_alike && kinds == before &&
                              has_layers_alone(model, plan, at.stage - 1) &&
                              has_layers_alone(model, plan, at.stage);
    stages.push_back(is_as_before ? stages.back() : stage_memory(model, plan, at));
    stages.back().parameters = held[at.stage];
    stages.back().muon = muon[at.stage];
    before = std::move(kinds);
  }
  return stages;
}

// The sums over a rank's stages.
struct RankSums {
  HeldParameters held;
  MuonShare muon;
  double quantized = 0;
  double kept = 0;                              // activations of all microbatches alive
  double stashed = 0;                           // of those that wait for their weight gradients
  double layer_at_work = 0, module_copied = 0;  // offloaded, and on the GPU nevertheless
  // Microbatches alive: in all stages of the rank, in the first stage, in the last one.
  int alive = 0, alive_first = 0, alive_last = 0;
  int waiting = 0;  // for weight gradients, in all stages
  bool has_embedding = false, has_head = false, recomputes = false;
};

RankSums sums_of(const std::vector<StageMemory>& stages,
                 std::span<const LiveActivations::Entry> live) {
  RankSums sums;
  for (const auto& [stage, microbatches, stashed] : live) {
    const auto s = static_cast<std::size_t>(index(stage));
    CHECK(s < stages.size() && microbatches >= 0 && stashed >= 0);
    const StageMemory& here = stages[s];
    sums.held += here.parameters;
    add_share(here.muon, &sums.muon);
    sums.quantized += here.quantized;
    sums.kept += microbatches * here.microbatch;
    sums.stashed += stashed * here.stashed;
    sums.waiting += stashed;
    sums.alive += microbatches;
    sums.alive_first += s == 0 ? microbatches : 0;
    sums.alive_last += s + 1 == stages.size() ? microbatches : 0;
    sums.has_embedding |= s == 0;
    sums.has_head |= s + 1 == stages.size();
    sums.recomputes |= here.recomputes;
    if (microbatches == 0) continue;
    sums.layer_at_work = std::max(sums.layer_at_work, here.layer_at_work);
    sums.module_copied = std::max(sums.module_copied, here.module_copied);
  }
  return sums;
}

// Returns the offloaded activations that are on the GPU nevertheless. On the last stage the peak is
// the larger of two moments: with the head's arrays (`head` bytes), or, when they are gone, with
// the first module copied back. So only the bytes by which the module exceeds `head` are added.
double offloaded_under_way(const RankSums& rank, double head) {
  return rank.layer_at_work +
         (rank.alive_last > 0 ? std::max(0.0, rank.module_copied - head) : rank.module_copied);
}

// Returns how many more bytes of activations the rank with the busiest experts has than a rank
// whose experts get the mean number of tokens.
double beyond_mean(const Model& model, const OrderedPlan& plan,
                   std::span<const LiveActivations::Entry> live, double kept) {
  if (!model.is_moe()) return 0;
  return kept - sums_of(stage_memories(evenly_routed(model), plan), live).kept;
}

double most_recomputed(const Model& model, const Plan& plan) {
  return most_of_layers(model,
                        [&](const Model& kind) { return recomputed_activations(kind, plan); });
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

// Adds the parts that grow with the parameters. `layers` and `ends`: of held.dense.
void add_parameters(const OrderedPlan& plan, const RankSums& rank, double layers, double ends,
                    PartList* parts) {
  const MuonShare& muon = rank.muon;
  const double experts = rank.held.expert;
  const std::pair<const char*, UpdatedParameters> pieces[] = {
      {"layers", {{layers}, {muon.held.dense}, {muon.updated.dense}}},
      {"experts", {{0, experts}, {0, muon.held.expert}, {0, muon.updated.expert}}},
      {"embedding and head", {{ends}, {}, {}}}};
  for (const auto& [of, piece] : pieces)
    parts->add("weights", fmt::format("weights of {}", of), parameter_bytes(piece.held, plan));
  parts->add("weights", "quantized copies of weights", rank.quantized);
  for (const auto& [of, piece] : pieces)
    parts->add("gradients", fmt::format("gradients of {}", of),
               zero_share(piece.held, plan, plan.scatters_each_microbatch()) *
                   bytes_of(plan.gradient_dtype));
  for (const auto& [of, piece] : pieces)
    parts->add("optimizer", fmt::format("optimizer's state of {}", of), state_bytes(plan, piece));
  const double padding = muon.padding.total();
  parts->add("weights", "padding of Muon's buffers", padding * stored_bytes(plan));
  parts->add("gradients", "padding of Muon's buffers", padding * bytes_of(plan.gradient_dtype));
}

// Adds the activations. `uneven`: beyond_mean().
void add_activations(const Model& model, const OrderedPlan& plan, const RankSums& rank, int outputs,
                     double uneven, PartList* parts) {
  const double head = head_activations(model, plan);
  const double embedded = rank.alive_first * embedding_activations(model, plan);
  const double logits = rank.alive_last * (1 + model.mtp_layers) * head;
  parts->add_microbatches("activations of layers", rank.alive,
                          rank.kept - embedded - logits - uneven);
  parts->add_microbatches("tokens of the busiest experts beyond the mean", rank.alive, uneven);
  parts->add_microbatches("dropout's mask of the embedding", rank.alive_first, embedded);
  parts->add_microbatches("logits and the head's input", rank.alive_last, logits);
  parts->add_microbatches("logits of vocabulary parallelism", outputs,
                          outputs * output_activations(model, plan));
  const double under_way = offloaded_under_way(rank, head);
  parts->add("activations", "offloaded activations under way", under_way);
  parts->add_microbatches("inputs of weight gradients", rank.waiting, rank.stashed);
  const double kept = rank.kept + rank.stashed + under_way;
  if (kept + outputs > 0 && rank.has_head)
    parts->add("activations", "the head's backward", head_backward_bytes(model, plan));
  if (kept > 0)
    parts->add("activations", "a layer of the pass that runs beside",
               traded_activations(model, plan));
  if (kept > 0 && rank.recomputes)
    parts->add("activations", "a recomputed layer", most_recomputed(model, plan));
}

}  // namespace

PlanMemory::PlanMemory(const Model& model, const OrderedPlan& plan)
    : plan_(plan),
      stages_(stage_memories(model, plan)),
      head_(head_activations(model, plan)),
      head_backward_(head_backward_bytes(model, plan)),
      recomputed_(most_recomputed(model, plan)),
      output_(output_activations(model, plan)),
      traded_(traded_activations(model, plan)),
      copy_(head_has_copy(model, plan) ? embedding_share(model, plan) : 0) {
  for (const BufferKind& kind : buffer_kinds()) communication_ += kind.bytes(model, plan);
}

MemoryUse PlanMemory::of_rank(std::span<const LiveActivations::Entry> live, int outputs) const {
  const RankSums rank = sums_of(stages_, live);
  HeldParameters held = rank.held;
  // Orders that lay the stages out as a V have the first and the last one on one rank. The head
  // then needs no copy of a tied embedding.
  if (rank.has_embedding && rank.has_head) held.dense -= copy_;
  double activations = rank.kept + rank.stashed;
  activations += offloaded_under_way(rank, head_);
  if (activations > 0 && rank.recomputes) activations += recomputed_;
  if (activations > 0) activations += traded_;
  activations += outputs * output_;
  if (activations > 0 && rank.has_head) activations += head_backward_;
  // In a pipeline, gradients are added up uncut until the last microbatch, also under ZeRO 2 and 3
  // (FSDP2's unsharded_accumulated_grad).
  const double gradients = zero_share(held, plan_, plan_.scatters_each_microbatch());
  const double cut = zero_share(held, plan_, plan_.zero >= 1);
  const MuonShare& muon = rank.muon;
  const double padding = muon.padding.total();
  return {.weights = parameter_bytes(held, plan_) + rank.quantized + padding * stored_bytes(plan_),
          .gradients = (gradients + padding) * bytes_of(plan_.gradient_dtype),
          .optimizer = state_bytes(plan_, {held, muon.held, muon.updated}),
          .activations = std::max(activations, muon_step_bytes(plan_, held, muon)),
          .communication =
              communication_ + deepspeed_buckets(plan_, held.total()) + deepspeed_step(plan_, cut)};
}

// Repeats PlanMemory::of_rank() part by part; tests hold the sums equal.
std::vector<MemoryPart> memory_parts(const Model& model, const OrderedPlan& plan,
                                     std::span<const LiveActivations::Entry> live, int outputs) {
  const RankSums rank = sums_of(stage_memories(model, plan), live);
  double layers = 0, ends = 0;
  const std::vector<HeldParameters> held = stage_parameters(model, plan);
  for (const LiveActivations::Entry& entry : live) {
    const int s = index(entry.stage);
    const double at_ends = end_parameters(model, plan, s);
    ends += at_ends;
    layers += held[s].dense - at_ends;
  }
  if (rank.has_embedding && rank.has_head && head_has_copy(model, plan))
    ends -= embedding_share(model, plan);
  const HeldParameters all = {layers + ends, rank.held.expert};
  PartList parts;
  add_parameters(plan, rank, layers, ends, &parts);
  add_activations(model, plan, rank, outputs, beyond_mean(model, plan, live, rank.kept), &parts);
  parts.add("activations", "Muon's step, beyond activations",
            muon_step_bytes(plan, all, rank.muon) - parts.sum("activations"));
  for (const BufferKind& kind : buffer_kinds())
    parts.add("communication", kind.name, kind.bytes(model, plan));
  parts.add("communication", "DeepSpeed's buckets", deepspeed_buckets(plan, all.total()));
  parts.add("communication", "fp32 gradients of DeepSpeed's step",
            deepspeed_step(plan, zero_share(all, plan, plan.zero >= 1)));
  return parts.take();
}

MemoryUse peak_memory(const Model& model, const OrderedPlan& plan, const LiveActivations& live) {
  CHECK(!live.ranks.empty());
  const PlanMemory memory(model, plan);
  MemoryUse worst;
  const auto add_ranks = [&](const std::vector<std::vector<LiveActivations::Entry>>& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      MemoryUse use =
          memory.of_rank(ranks[rank], rank < live.outputs.size() ? live.outputs[rank] : 0);
      use.rank = static_cast<int>(rank);
      if (use.total() > worst.total()) worst = use;
    }
  };
  add_ranks(live.ranks);
  add_ranks(live.waiting);
  return worst;
}

}  // namespace tandem
