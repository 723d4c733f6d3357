// Plays plans at stage level: each pass of a stage is one operation, of a length that
// stage_times.cpp measured. Communication takes the time that it has alone on the network. And
// computes a plan's memory, or its floor: the bytes that it needs at least.
#include "planning/tune/stage_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "job/memory_timeline.h"
#include "job/order_job.h"
#include "job/price_job.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/price.h"
#include "sim/engines.h"
#include "workload/memory/reserve.h"

namespace tandem {
namespace {

// A step of a pass. `unit`: the index of the parameters that it uses (embedding, layer or head)
// among the stage's; -1: none.
struct UnitTimes {
  int unit = 0;
  Nanoseconds duration_ns = 0;
};

Pass pass_of(const std::vector<UnitTimes>& steps) {
  PassBuilder pass;
  for (const auto& [unit, duration_ns] : steps) pass.compute(/*kernel=*/-1, duration_ns, unit);
  return pass.take();
}

// Sets a stage's passes to one step each.
void set_passes(const PassTimes& times, int unit, StageWork* stage) {
  stage->forward = pass_of({{unit, times.forward}});
  stage->backward = pass_of({{unit, times.backward}});
  stage->backward_input = pass_of({{unit, times.input}});
  stage->backward_weight = pass_of({{unit, times.weight}});
}

// Sets the size and stride of a stage's groups of data parallelism, by the slot of their op.
void place_in_block(const Layout& layout, const Plan& plan, const Slots& slots, int slot,
                    RankGroups* groups) {
  // With HSDP the parameters are cut over `shard` ranks that are tp apart, in a block of tp x shard
  // neighbouring GPUs. Replicas of a cut are such a block apart.
  const int shard = plan.hsdp_shard, cut = layout.tp * shard;
  if (slot == slots.data) groups->stride = layout.tp;
  const int expert_stride = layout.ep * std::max(layout.expert_tp, 1);
  if (slot == slots.expert_data) groups->stride = expert_stride;
  if (slot == slots.data || slot == slots.expert_data)
    groups->size = (shard > 0 ? cut : layout.pipeline_rank_gpus()) / groups->stride;
  if (slot == slots.replicas || slot == slots.expert_replicas) {
    groups->stride = cut;
    groups->size = layout.pipeline_rank_gpus() / cut;
  }
  if (slot == slots.secondary || slot == slots.expert_secondary) {  // ZeRO's hpZ
    groups->stride = slot == slots.secondary ? layout.tp : expert_stride;
    groups->size = plan.zero_hpz;
  }
  // The norm of gradients is summed over the tensor ranks of all stages.
  if (slot == slots.norm) groups->size = layout.tp;
}

}  // namespace

std::vector<std::vector<int>> stages_of_ranks(const OrderTraits& order, const Layout& layout) {
  std::vector<std::vector<int>> ranks(layout.pp);
  for (int stage = 0; stage < layout.stages(); ++stage) {
    for (int chain = 0; chain < order.chains; ++chain) {
      const int in_order = chain * layout.stages() + stage;
      ranks[order.placement.rank_of(in_order, layout.pp, layout.vpp)].push_back(stage);
    }
  }
  return ranks;
}

StageLevel::StageLevel(const Scenario& base, Cluster cluster)
    : StageLevel(base, std::move(cluster), std::make_shared<Known>()) {}

StageLevel::StageLevel(const Scenario& base, Cluster cluster, std::shared_ptr<Known> known)
    : base_(base), groups_(base, std::move(cluster), known->choices), known_(std::move(known)) {}

StageLevel StageLevel::beside(Cluster cluster) const {
  return StageLevel(base_, std::move(cluster), known_);
}

OrderedPlan StageLevel::ordered_plan(const Candidate& candidate) const {
  const auto& [layout, playing, sharing] = candidate;
  const OrderTraits& order = traits_of(base_, playing);
  OrderSpec spec{.name = std::string(playing.order), .pp = layout.pp, .vpp = layout.vpp};
  spec.orders = base_.job.order.orders;
  return {plan_of(base_, candidate), order.chains, ends_on_one_rank(order, layout.pp, layout.vpp),
          base_.job.expert_overlap && pairs_for_experts(spec)};
}

double StageLevel::state_floor(Layout cut) const {
  if (base_.job.plan.muon) return 0;  // its padding depends on where stages are cut
  cut.scatter_gather = cut.tp > 1 && cut.pp > 1 && !cut.sequence_parallel;  // the smaller buffers
  double least = std::numeric_limits<double>::infinity();
  const int most_zero = cut.pp > 1 ? 1 : 3;  // in a pipeline, ZeRO 2 and 3 hold no less than 1
  for (int zero = 0; zero <= most_zero; ++zero) {
    // One chain, as a second one only adds parameters. Both ends on one rank, so that no other rank
    // has a copy of the embedding.
    const OrderedPlan plan(
        plan_of(base_, {cut, {}, {.zero = zero, .hsdp_shard = 0, .zero_hpz = 0}}),
        /*copies_of_model=*/1,
        /*both_ends_on_one_rank=*/true, /*passes_trade_layers=*/false);
    if (!check_model(base_.job.model, plan).ok()) continue;
    const PlanMemory memory(base_.job.model, plan);
    double all_ranks = 0;
    for (int rank = 0; rank < cut.pp; ++rank) {
      const LiveActivations::Entry none[] = {{static_cast<Stage>(rank), 0}};
      const MemoryUse use = memory.of_rank(none, /*outputs=*/0);
      all_ranks += use.weights + use.gradients + use.optimizer + use.communication;
    }
    least = std::min(least, all_ranks / cut.pp);
  }
  return std::isinf(least) ? 0 : least;
}

double StageLevel::memory_floor(const Candidate& candidate) const {
  LiveActivations live;
  for (const std::vector<int>& stages :
       stages_of_ranks(traits_of(base_, candidate.playing), candidate.layout)) {
    auto& entries = live.ranks.emplace_back();
    for (const int stage : stages)
      entries.push_back({static_cast<Stage>(stage), stage == stages.front() ? 1 : 0});
  }
  return peak_bytes(candidate, live);
}

// Counts the most microbatches alive on each rank. A memory timeline (job/memory_timeline.h) gives
// a little more, and takes a hundred times as long.
double StageLevel::memory(const Candidate& candidate, const Order& order) const {
  return peak_bytes(candidate, live_activations(order));
}

bool StageLevel::fits(const Candidate& candidate, double tensors) const {
  return fits_memory(base_.cluster.spec.device, base_.job.model, plan_of(base_, candidate),
                     tensors);
}

double StageLevel::peak_bytes(const Candidate& candidate, const LiveActivations& live) const {
  MemoryUse use = peak_memory(base_.job.model, ordered_plan(candidate), live);
  use.workspace = base_.cluster.spec.device.gemm_workspace_bytes;
  return use.total();
}

Nanoseconds StageLevel::transfer_ns(const Layout& layout, int from, int to) {
  return groups_.alone_ns(groups_.of_transfer(layout, from, to), times(layout).pipeline_bytes);
}

Result<Order> StageLevel::order_of(const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  OrderSpec spec = scenario_with(base_, candidate).job.order;
  // A stage has about six ops for each microbatch: passes, sends and receives. A search plays many
  // plans, so each may have only a quarter of limits.ops.
  constexpr double kOps = 6, kPlans = 4;
  if (kOps * layout.stages() * spec.microbatches > base_.limits.ops / kPlans)
    return Error{
        fmt::format("found {} microbatches on {} stages, expected at most limits.ops / 4 "
                    "= {:g} ops",
                    spec.microbatches, layout.stages(), base_.limits.ops / kPlans)};
  const OrderTraits& order = traits_of(spec);
  spec.expert_overlap = base_.job.expert_overlap && pairs_for_experts(spec);
  if (order.made_for_costs()) {
    const double transfer = layout.pp == 1 ? 0 : to_seconds(transfer_ns(layout, 0, 1));
    for (const PassTimes& pass : stages(layout))
      spec.stage_costs.push_back(
          {to_seconds(pass.forward), to_seconds(pass.input), to_seconds(pass.weight), transfer});
  }
  return make_order(spec);
}

// Cuts the passes of the model's first stage into a step for each unit (embedding, layers, head),
// as its gradients are reduced unit by unit.
void StageLevel::cut_by_unit(const StagePassTimes& parts, bool has_head, StageWork* stage) const {
  const auto cut = [&](Nanoseconds PassTimes::*time) {
    std::vector<UnitTimes> units = {{/*unit=*/0, parts.embedding.*time}};
    for (int layer = 1; layer <= stage->layers; ++layer)
      units.push_back({layer, parts.layer(base_.job.model.kind_of(layer - 1), layer - 1).*time});
    if (has_head) units.push_back({stage->layers + 1, parts.head.*time});
    units.back().duration_ns += parts.once.*time;
    return units;
  };
  const auto reversed = [&](Nanoseconds PassTimes::*time) {
    std::vector<UnitTimes> units = cut(time);
    std::ranges::reverse(units);
    return units;
  };
  stage->forward = pass_of(cut(&PassTimes::forward));
  stage->backward = pass_of(reversed(&PassTimes::backward));
  stage->backward_weight = pass_of(reversed(&PassTimes::weight));
}

// Returns the plan's workload, with passes of one step (or one a unit) that take the measured
// times.
Workload StageLevel::stage_level_workload(const Candidate& candidate, const Order& order) {
  const Layout& layout = candidate.layout;
  Workload work =
      price_workload(scenario_with(base_, candidate).job, order, base_.costs, groups_.site());
  const std::vector<PassTimes> passes = stages(layout);
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    StageWork& stage = work.stages[s];
    // Multi-token prediction may leave a stage without parameters.
    set_passes(passes[s % passes.size()], /*unit=*/stage.units.empty() ? -1 : 0, &stage);
    if (layout.pp == 1 || (s == 0 && buckets_first_stage(candidate.sharing, order.chains)))
      cut_by_unit(times(layout), /*has_head=*/layout.pp == 1, &stage);
    if (stage.optimizer) stage.optimizer->kernel = -1;
  }
  work.kernels.clear();
  return work;
}

Result<RankEnds> StageLevel::play_ranks(const Candidate& candidate, const Order& order) {
  const Layout& layout = candidate.layout;
  Workload work;
  for (int chain = 0; chain < order.chains; ++chain) {
    for (const PassTimes& pass : stages(layout))
      set_passes(pass, /*unit=*/-1, &work.stages.emplace_back());
  }
  work.pipeline_bytes = times(layout).pipeline_bytes;
  ASSIGN_OR_RETURN(OneReplica lowered,
                   lower_one_replica(order, work, {.overlap_p2p = candidate.playing.overlap_p2p}));
  price(candidate, &lowered);
  const Program& program = lowered.program;
  ASSIGN_OR_RETURN(const Trace trace, ideal(program));
  RankEnds ends(layout.pp);
  for (const RankTrace& rank : trace.ranks) {
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (is_compute(program.bodies[rank.body].ops[i].kind))
        ends[rank.body] = std::max(ends[rank.body], events[i].end_ns);
    }
  }
  return ends;
}

// Sets the durations of communication: each as if it were alone on the network.
void StageLevel::price(const Candidate& candidate, OneReplica* lowered) {
  Program& program = lowered->program;
  const Plan plan = plan_of(base_, candidate);
  for (int body = 0; body < candidate.layout.pp; ++body) {
    for (Op& op : program.bodies[body].ops) {
      if (!is_compute(op.kind)) op.duration_ns = alone_ns(candidate, plan, *lowered, body, op);
    }
  }
}

// The program has one rank for each pipeline rank, so its communicators' members are these.
Nanoseconds StageLevel::alone_ns(const Candidate& candidate, const Plan& plan,
                                 const OneReplica& lowered, int body, const Op& op) {
  const Layout& layout = candidate.layout;
  const Program& program = lowered.program;
  const auto& [group_kind, between_nodes, members] =
      program.communicators[program.ranks[body].communicators[op.slot]];
  if (op.slot == lowered.slots[body].amax)
    return groups_.alone_ns(groups_.of_amax(layout, group_kind, body), op.bytes);
  if (group_kind == GroupKind::Pipeline)
    return transfer_ns(layout, index(members[0]), index(members[1]));
  const CommKind kind = comm_kind(op.kind);
  if (group_kind != GroupKind::Data)
    return groups_.alone_ns(groups_.of_pass(layout, group_kind, kind), op.bytes);
  std::vector<int> stages;
  for (const Rank member : members) stages.push_back(index(member));
  RankGroups groups = groups_.of_data(layout, kind, stages);
  groups.gathers_each_microbatch = plan.gathers_each_microbatch();
  place_in_block(layout, plan, lowered.slots[body], op.slot, &groups);
  return groups_.alone_ns(groups, op.bytes);
}

Result<Nanoseconds> StageLevel::play(const Candidate& candidate, const Order& order) {
  const Scenario scenario = scenario_with(base_, candidate);
  LowerOptions options = lower_options(scenario.job, order, shared_device(scenario));
  options.expert_overlap = false;  // no pass has steps to overlap with
  ASSIGN_OR_RETURN(OneReplica lowered,
                   lower_one_replica(order, stage_level_workload(candidate, order), options));
  price(candidate, &lowered);
  ASSIGN_OR_RETURN(const Trace trace, ideal(lowered.program));
  return std::ranges::max(trace.events, {}, &EventTimes::end_ns).end_ns;
}

}  // namespace tandem
