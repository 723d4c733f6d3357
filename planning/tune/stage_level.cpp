// Plays and bounds plans at stage level: each pass of a stage is one operation, of a length that
// stage_times.cpp measured. All times are nanoseconds. A bound is a time that no iteration of the
// plan beats, a floor the bytes that it needs at least. Parts that cannot be known count as zero.
#include "planning/tune/stage_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "job/memory_timeline.h"
#include "job/order_job.h"
#include "job/price_job.h"
#include "schedule/lowering/body_builder.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/price.h"
#include "sim/engines.h"
#include "workload/cost/kernel.h"
#include "workload/memory/reserve.h"
#include "workload/model/blocks.h"
#include "workload/model/muon.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

OrderedPlan ordered_plan(const Candidate& candidate, const Scenario& base) {
  const auto& [layout, playing, sharing] = candidate;
  const OrderTraits& order = traits_of(playing.order, base.job.order.orders);
  OrderSpec spec{.name = std::string(playing.order), .pp = layout.pp, .vpp = layout.vpp};
  spec.orders = base.job.order.orders;
  return {plan_of(base, candidate), order.chains, ends_on_one_rank(order, layout.pp, layout.vpp),
          base.job.expert_overlap && pairs_for_experts(spec)};
}

int microbatches(const Scenario& base, const Layout& layout) {
  return base.job.plan.global_batch / (layout.micro_batch * layout.dp);
}

// Returns a pass of one step. `unit`: the index of the parameters that it uses (embedding, layer or
// head) among the stage's; -1: none.
Pass pass_of_one_step(Nanoseconds duration, int unit = 0) {
  PassBuilder pass;
  pass.compute(-1, duration, unit);
  return pass.take();
}

struct UnitTimes {
  int unit = 0;
  Nanoseconds duration_ns = 0;
};

Pass pass_by_unit(const std::vector<UnitTimes>& units) {
  PassBuilder pass;
  for (const auto& [unit, duration_ns] : units) pass.compute(-1, duration_ns, unit);
  return pass.take();
}

// Whether the model's first stage reduces its gradients bucket by bucket, during its passes.
bool buckets_first_stage(const Sharing& sharing, int chains) {
  return sharing.grad_reduce && chains == 1;
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

const OrderTraits& StageLevel::traits(const Playing& playing) const {
  return traits_of(playing.order, base_.job.order.orders);
}

double StageLevel::state_floor(Layout cut) const {
  if (base_.job.plan.muon) return 0;  // its padding depends on where stages are cut
  cut.scatter_gather = cut.tp > 1 && cut.pp > 1 && !cut.sequence_parallel;  // the smaller buffers
  double least = std::numeric_limits<double>::infinity();
  for (int zero = 0; zero <= (cut.pp > 1 ? 1 : 3); ++zero) {
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
      const MemoryUse use = memory.of_rank(none, 0);
      all_ranks += use.weights + use.gradients + use.optimizer + use.communication;
    }
    least = std::min(least, all_ranks / cut.pp);
  }
  return std::isinf(least) ? 0 : least;
}

double StageLevel::memory_floor(const Candidate& candidate) const {
  LiveActivations live;
  for (const std::vector<int>& stages :
       stages_of_ranks(traits(candidate.playing), candidate.layout)) {
    auto& entries = live.ranks.emplace_back();
    for (const int stage : stages)
      entries.push_back({static_cast<Stage>(stage), stage == stages.front() ? 1 : 0});
  }
  return peak_bytes(candidate, live);
}

// Counts the most microbatches alive on each rank. A memory timeline (job/memory_timeline.h) gives
// up to a thousandth more, and takes a hundred times as long.
double StageLevel::memory(const Candidate& candidate, const Order& order) const {
  return peak_bytes(candidate, live_activations(order));
}

bool StageLevel::fits(const Candidate& candidate, double tensors) const {
  return fits_memory(base_.cluster.spec.device, base_.job.model, plan_of(base_, candidate),
                     tensors);
}

double StageLevel::peak_bytes(const Candidate& candidate, const LiveActivations& live) const {
  MemoryUse use = peak_memory(base_.job.model, ordered_plan(candidate, base_), live);
  use.workspace = base_.cluster.spec.device.gemm_workspace_bytes;
  return use.total();
}

Nanoseconds StageLevel::transfer_ns(const Layout& layout, int from, int to) {
  return groups_.alone_ns(groups_.of_transfer(layout, from, to), times(layout).pipeline_bytes);
}

Nanoseconds StageLevel::work_bound(const Layout& layout) {
  return work_of(times(layout), layout).iteration();
}

Nanoseconds StageLevel::uncontended_bound(const Layout& layout) {
  return work_of(uncontended_times(layout), layout).iteration();
}

Nanoseconds StageLevel::exposed_bound(const Layout& layout) {
  return work_of(exposed_times(layout), layout).iteration();
}

Nanoseconds StageLevel::least_exposed_bound(const Layout& layout) {
  return least_exposed_work(layout).iteration();
}

WorkBound StageLevel::work_of(const StagePassTimes& parts, const Layout& layout) const {
  if (parts.layers.empty()) return {INT64_MAX, INT64_MAX};
  const Model& model = base_.job.model;
  const PassTimes whole = parts.of(model, 0, model.layers, /*first=*/true, /*last=*/true) +
                          (layout.stages() - 1) * parts.once;
  // One microbatch goes through all stages one after another. Its weight gradients may come later,
  // and run side by side.
  const Nanoseconds chain = whole.forward + std::min(whole.backward, whole.input);
  return {whole.least() * microbatches(base_, layout) / layout.pp, chain};
}

Nanoseconds StageLevel::waits_bound(const OrderTraits& order, int microbatches, int rank,
                                    const std::vector<int>& rank_of,
                                    const std::vector<Nanoseconds>& edges) const {
  if (order.chains > 1) return 0;
  const Nanoseconds up = rank + 1 < static_cast<int>(edges.size()) ? edges[rank] : 0;
  const Nanoseconds down = rank > 0 ? edges[rank - 1] : 0;
  // Returns the time of the transfer to a stage's rank; 0 if that rank is not next to this one, or
  // there is no such stage.
  const auto edge_to = [&](std::size_t stage) -> Nanoseconds {
    if (stage >= rank_of.size()) return 0;
    if (rank_of[stage] == rank + 1) return up;
    return rank_of[stage] == rank - 1 ? down : 0;
  };
  Nanoseconds all = 0, last = 0;
  std::int64_t passing = 0;  // passes that come from one neighbour rank and go on to the other
  for (std::size_t s = 0; s < rank_of.size(); ++s) {
    if (rank_of[s] != rank) continue;
    const Nanoseconds forward = edge_to(s + 1), backward = edge_to(s - 1);  // stage 0 - 1: none
    all += microbatches * (forward + backward);
    last = std::max(last, backward);
    if (s > 0 && s + 1 < rank_of.size() && std::abs(rank_of[s + 1] - rank_of[s - 1]) == 2 &&
        rank_of[s + 1] + rank_of[s - 1] == 2 * rank)
      passing += microbatches;
  }
  // Nothing waits for a rank's last transfer.
  if (order.exchanges == BatchedP2p::EachAction) return all - last;
  // A forward and a backward exchange at the same time: the rank waits for at least one of them.
  return std::max(passing - 1, std::int64_t{0}) * std::min(up, down);
}

RankEnds StageLevel::ends_bound(const Layout& layout, const Playing& playing) {
  const std::vector<PassTimes> passes = stages(layout);
  const OrderTraits& order = traits(playing);
  const std::vector<std::vector<int>> ranks = stages_of_ranks(order, layout);
  const std::vector<int> rank_of = ranks_of_chain(order, layout.pp, layout.vpp);
  const bool whole_backwards = !order.splits_backwards;
  const int chain_microbatches = microbatches(base_, layout) / order.chains;
  std::vector<Nanoseconds> edges(layout.pp);  // from a rank to the next one
  for (int rank = 0; rank + 1 < layout.pp; ++rank)
    edges[rank] = transfer_ns(layout, rank, rank + 1);
  // The time from the iteration's start to a stage's first forward, and from its last backward to
  // the iteration's end.
  std::vector<Nanoseconds> before(passes.size()), behind(passes.size());
  for (std::size_t s = 1; s < passes.size(); ++s) {
    const int low = std::min(rank_of[s - 1], rank_of[s]),
              high = std::max(rank_of[s - 1], rank_of[s]);
    // Interleaved stages go from the last rank to the first by another route; its time is not
    // counted.
    const Nanoseconds edge = high - low == 1 ? edges[low] : 0;
    before[s] = before[s - 1] + passes[s - 1].forward + edge;
    behind[s] = behind[s - 1] + passes[s - 1].backward + edge;
  }
  RankEnds ends;
  Nanoseconds last = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    Nanoseconds start = INT64_MAX, tail = INT64_MAX, work = 0;
    for (const int stage : ranks[rank]) {
      const PassTimes& pass = passes[stage];
      start = std::min(start, before[stage]);
      tail = std::min(tail, behind[stage]);
      work += chain_microbatches * (whole_backwards ? pass.forward + pass.backward : pass.least());
    }
    if (!playing.overlap_p2p && layout.pp > 1)
      work += waits_bound(order, chain_microbatches, rank, rank_of, edges);
    ends.push_back(start + work);
    if (whole_backwards) last = std::max(last, start + work + tail);
  }
  Nanoseconds& end_of_first_stage = ends[rank_of.front()];
  end_of_first_stage = std::max(end_of_first_stage, last);
  return ends;
}

// Returns the time of a collective over the data-parallel replicas of a stage's ranks.
Nanoseconds StageLevel::data_ns(const Candidate& candidate, int rank, CommKind kind, double bytes) {
  const Layout& layout = candidate.layout;
  RankGroups groups = groups_.of_data(layout, kind, {rank});
  groups.stride = layout.tp;
  groups.size = layout.dp * layout.cp;
  groups.zero3 = candidate.sharing.zero == 3 && layout.pp == 1;
  if (groups.size == 1 || bytes <= 0) return 0;
  return groups_.alone_ns(groups, static_cast<Bytes>(bytes));
}

// An iteration consists of
//   ahead     the gather of the first stage's parameters, if it waits for it
//   reduced   all ranks' passes and the reductions of gradients that follow them
//   behind    the optimizer, and the gather of parameters after it
// and takes at least `lanes`, the data-parallel communication of the busiest rank in a row.
Nanoseconds StageLevel::data_bound(const Candidate& candidate, const RankEnds& ends) {
  const auto& [layout, playing, sharing] = candidate;
  const OrderedPlan plan = ordered_plan(candidate, base_);
  const std::vector<HeldParameters> held = stage_parameters(base_.job.model, plan);
  const std::vector<MuonShare> muon = muon_shares(base_.job.model, plan);
  const OrderTraits& order = traits(playing);
  const std::vector<std::vector<int>> ranks = stages_of_ranks(order, layout);
  const double gradient_bytes = bytes_of(plan.gradient_dtype);
  const double parameter_bytes = gathered_parameter_bytes(plan);
  const CommKind reduce = sharing.zero == 0 ? CommKind::AllReduce : CommKind::ReduceScatter;
  const CostModel cost = base_.cost_model();
  // In three cases groups are not a stage's replicas, and count as zero: two chains (groups span
  // two ranks), HSDP (groups of a cut, then of replicas), and ZeRO's hpZ (smaller groups).
  const bool counts_as_zero = order.chains > 1 || plan.hsdp_shard > 0 || plan.zero_hpz > 0;
  // Bytes are rounded in each unit (layers, embedding, head): one byte less for each gives a bound.
  const auto ns = [&](int rank, CommKind kind, double parameters, double bytes) {
    return counts_as_zero ? 0
                          : data_ns(candidate, rank, kind,
                                    std::max(0.0, parameters * bytes - base_.job.model.layers - 2));
  };
  const bool no_pipeline = layout.pp == 1;  // ZeRO 2 and 3 then communicate for each microbatch
  Nanoseconds reduced = 0, behind = 0, lanes = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    double parameters = 0, smallest_stage = 1e300;
    Nanoseconds optimizer = to_ns(iteration_overhead_s(plan, base_.costs.profile,
                                                       base_.job.model.layers / double(layout.pp)));
    for (const int stage : ranks[rank]) {
      parameters += held[stage].dense;
      // The first stage's last bucket may be small.
      const bool has_buckets = stage == 0 && buckets_first_stage(sharing, order.chains);
      smallest_stage = std::min(smallest_stage, has_buckets ? 0 : held[stage].dense);
      // Casts of weights are left out, which keeps it a bound.
      const Kernel step = optimizer_kernel(plan, held[stage], 0, muon[stage], base_.costs.profile);
      if (!step.empty()) optimizer += kernel_ns(cost, step);
    }
    if (order.chains > 1) optimizer = 0;
    const int reductions = sharing.zero >= 2 && no_pipeline ? microbatches(base_, layout) : 1;
    const Nanoseconds reductions_ns = reductions * ns(rank, reduce, parameters, gradient_bytes);
    const Nanoseconds gather_ns =
        sharing.zero == 0 ? 0 : ns(rank, CommKind::AllGather, parameters, parameter_bytes);
    // ZeRO 3 gathers for each pass, or once for each microbatch if parameters are kept until the
    // backward.
    const int gathers =
        sharing.zero == 3 && no_pipeline ? reductions * (plan.gathers_each_pass() ? 2 : 1) : 1;
    lanes = std::max(lanes, reductions_ns + gathers * gather_ns);
    Nanoseconds end = ends[rank];
    if (!sharing.grad_reduce) {
      end += reductions_ns;
    } else if (layout.pp > 1) {
      end += ns(rank, reduce, smallest_stage, gradient_bytes);
    }
    if (sharing.zero == 3 && no_pipeline && !sharing.param_gather) end += gathers * gather_ns;
    reduced = std::max(reduced, end);
    const bool gathers_at_end = (sharing.zero == 1 || sharing.zero == 2) && !sharing.param_gather;
    behind = std::max(behind, optimizer + (gathers_at_end ? gather_ns : 0));
  }
  Nanoseconds ahead = 0;
  if (sharing.param_gather && layout.pp > 1 && base_.job.bucket_bytes == 0 &&
      !buckets_first_stage(sharing, order.chains))
    ahead = ns(order.placement.rank_of(0, layout.pp, layout.vpp), CommKind::AllGather,
               held[0].dense, parameter_bytes);
  // The gradient norm's all-reduce keeps every rank's optimizer waiting for all reductions.
  return std::max(lanes, ahead + reduced + behind);
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
    std::vector<UnitTimes> units = {{0, parts.embedding.*time}};
    for (int layer = 1; layer <= stage->layers; ++layer)
      units.push_back({layer, parts.layers[base_.job.model.kind_of(layer - 1)].*time});
    if (has_head) units.push_back({stage->layers + 1, parts.head.*time});
    units.back().duration_ns += parts.once.*time;
    return units;
  };
  const auto reversed = [&](Nanoseconds PassTimes::*time) {
    std::vector<UnitTimes> units = cut(time);
    std::ranges::reverse(units);
    return units;
  };
  stage->forward = pass_by_unit(cut(&PassTimes::forward));
  stage->backward = pass_by_unit(reversed(&PassTimes::backward));
  stage->backward_weight = pass_by_unit(reversed(&PassTimes::weight));
}

// Returns the plan's workload, with passes of one step (or one a unit) that take the measured
// times.
Workload StageLevel::stage_level_workload(const Candidate& candidate, const Order& order) {
  const Layout& layout = candidate.layout;
  Workload work =
      price_workload(scenario_with(base_, candidate).job, order, base_.costs, groups_.site());
  const std::vector<PassTimes> passes = stages(layout);
  const StagePassTimes& parts = times(layout);
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    StageWork& stage = work.stages[s];
    const PassTimes& pass = passes[s % passes.size()];
    if (layout.pp > 1 && (s > 0 || !buckets_first_stage(candidate.sharing, order.chains))) {
      const int unit = stage.units.empty() ? -1 : 0;  // multi-token prediction may leave none
      stage.forward = pass_of_one_step(pass.forward, unit);
      stage.backward = pass_of_one_step(pass.backward, unit);
      stage.backward_input = pass_of_one_step(pass.input, unit);
      stage.backward_weight = pass_of_one_step(pass.weight, unit);
      continue;
    }
    cut_by_unit(parts, layout.pp == 1, &stage);
    if (layout.pp > 1) stage.backward_input = pass_of_one_step(pass.input);
  }
  work.kernels.clear();
  for (StageWork& stage : work.stages) {
    if (stage.optimizer) stage.optimizer->kernel = -1;
  }
  return work;
}

Result<RankEnds> StageLevel::play_ranks(const Candidate& candidate, const Order& order) {
  const Layout& layout = candidate.layout;
  Workload work;
  for (int chain = 0; chain < order.chains; ++chain) {
    for (const PassTimes& pass : stages(layout))
      work.stages.push_back({.forward = pass_of_one_step(pass.forward, -1),
                             .backward = pass_of_one_step(pass.backward, -1),
                             .backward_input = pass_of_one_step(pass.input, -1),
                             .backward_weight = pass_of_one_step(pass.weight, -1)});
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
  groups.zero3 = candidate.sharing.zero == 3 && layout.pp == 1;
  const Slots& slots = lowered.slots[body];
  if (op.slot == slots.data) groups.stride = layout.tp;
  if (op.slot == slots.expert_data) groups.stride = layout.ep * std::max(layout.expert_tp, 1);
  // With HSDP the parameters are cut over `shard` ranks that are tp apart, in a block of tp x shard
  // neighbouring GPUs. Replicas of a cut are such a block apart.
  const int shard = plan.hsdp_shard, cut = layout.tp * shard;
  if (op.slot == slots.data || op.slot == slots.expert_data)
    groups.size = (shard > 0 ? cut : layout.block()) / groups.stride;
  if (op.slot == slots.replicas || op.slot == slots.expert_replicas) {
    groups.stride = cut;
    groups.size = layout.block() / cut;
  }
  if (op.slot == slots.secondary) {
    groups.stride = layout.tp;
    groups.size = plan.zero_hpz;
  }
  if (op.slot == slots.norm) groups.size = layout.tp;
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
