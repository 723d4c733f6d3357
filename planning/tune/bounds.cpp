// Bounds: times that no iteration of a plan beats. Each is computed from less than the whole plan,
// and what it cannot know counts as zero. Declared in planning/tune/stage_level.h.
//
//   work_of()     from the passes of all microbatches
//   cut_bound()   the least of these with any micro batch, measuring as few as it can
//   ends_bound()  from the order's pipeline: when each rank ends at the earliest
//   data_bound()  from these ends and the communication of data parallelism
//
// For example, two ranks have one stage each, whose passes take 10 and 20 ms; a transfer takes 1
// ms, and there are 4 microbatches. Each rank works for 4 x 30 = 120 ms. Rank 1 starts after the
// first forward and its transfer, at 11 ms, and ends at 131 ms at the earliest. The last gradient
// then goes to rank 0, whose backward follows: rank 0 ends at 131 + 1 + 20 = 152 ms.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "planning/tune/stage_level.h"
#include "workload/cost/kernel.h"
#include "workload/model/blocks.h"
#include "workload/model/muon.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

// A pipeline's stages on its ranks.
struct StageRanks {
  std::vector<int> rank_of;        // by stage
  std::vector<Nanoseconds> edges;  // times of a transfer from each rank to the next one; 0 at last

  // Returns the time of a transfer between two ranks. Interleaved stages go from the last rank to
  // the first by another route; its time is not counted.
  Nanoseconds edge(int a, int b) const { return std::abs(a - b) == 1 ? edges[std::min(a, b)] : 0; }
  // Returns the time of the transfer between a stage and the next one; 0: there is no such stage.
  Nanoseconds edge_behind(std::size_t stage) const {
    return stage + 1 < rank_of.size() ? edge(rank_of[stage], rank_of[stage + 1]) : 0;
  }
  Nanoseconds edge_before(std::size_t stage) const {
    return stage > 0 ? edge_behind(stage - 1) : 0;
  }
  // Whether activations come to this stage from one neighbour rank and go on to the other.
  bool passes_through(std::size_t stage) const {
    if (stage == 0 || stage + 1 == rank_of.size()) return false;
    const int before = rank_of[stage - 1], here = rank_of[stage], next = rank_of[stage + 1];
    const bool goes_up = before == here - 1 && next == here + 1;
    const bool goes_down = before == here + 1 && next == here - 1;
    return goes_up || goes_down;
  }
};

// Returns the least time that a rank waits for its transfers, if none overlaps. `microbatches`: of
// a chain.
Nanoseconds waits_bound(const OrderTraits& order, const StageRanks& stages, int microbatches,
                        int rank) {
  if (order.chains > 1) return 0;
  Nanoseconds all = 0, last = 0;
  std::int64_t passing = 0;
  for (std::size_t s = 0; s < stages.rank_of.size(); ++s) {
    if (stages.rank_of[s] != rank) continue;
    all += microbatches * (stages.edge_behind(s) + stages.edge_before(s));
    last = std::max(last, stages.edge_before(s));
    passing += stages.passes_through(s) ? microbatches : 0;
  }
  // After each action the rank waits for its transfer, but for the last one.
  if (order.exchanges == BatchedP2p::EachAction) return all - last;
  // Otherwise transfers go in pairs. Each microbatch that passes through the rank, but for the last
  // one, makes it wait for one of its two edges: with 4, and edges of 1 and 2 ms, for 3 x 1 ms.
  if (passing == 0) return 0;
  return (passing - 1) * std::min(stages.edge(rank - 1, rank), stages.edge(rank, rank + 1));
}

// Returns the sizes of products that are rounded to whole numbers, for each kind of the model's
// layers. All other sizes are in proportion to the micro batch.
std::vector<std::int64_t> rounded_counts(const Model& model, const Plan& plan) {
  std::vector<std::int64_t> counts;
  for (const auto& [kind, layers] : kinds_of(model)) {
    counts.push_back(expert_rows(*kind, plan));
    counts.push_back(scan_chunks(*kind, plan));
  }
  return counts;
}

struct MicroBatch {
  int samples = 0;
  std::vector<std::int64_t> counts;  // rounded_counts()
  WorkBound work = {};

  // Whether one pass takes no longer than the passes of `part` over the same samples. These must be
  // a whole number of passes, and have no fewer rows after rounding: 4 passes of 2 rows for 8.
  bool takes_no_longer_than_parts(const MicroBatch& part) const {
    const int passes = samples / part.samples;
    const auto has_no_more = [&](std::int64_t all, std::int64_t each) {
      return all <= passes * each;
    };
    return passes * part.samples == samples && std::ranges::equal(counts, part.counts, has_no_more);
  }
};

}  // namespace

WorkBound StageLevel::work_of(const StagePassTimes& parts, const Layout& layout) const {
  if (parts.layers.empty()) return {INT64_MAX, INT64_MAX};
  const Model& model = base_.job.model;
  PassTimes whole = parts.of(model, 0, model.layers, /*first=*/true, /*last=*/true) +
                    (layout.stages() - 1) * parts.once;
  if (!parts.recomputed.empty()) {  // the first layers of each stage
    whole = {};
    for (const PassTimes& stage : stages_of(parts, layout)) whole = whole + stage;
  }
  // One microbatch goes through all stages one after another. Its weight gradients may come later,
  // and run side by side.
  const Nanoseconds chain = whole.forward + std::min(whole.backward, whole.input);
  return {whole.least() * layout.microbatches(base_) / layout.pp, chain};
}

// Measures without recompute. A setting of recompute may beat that by rounding alone: it may merge
// two kernels, which are then rounded to a nanosecond once and not twice. A kernel takes at least a
// microsecond, so a thousandth less is a bound.
WorkBound StageLevel::least_exposed_work(Layout layout) {
  layout.recompute = Recompute::None;
  layout.recompute_layers = layout.recompute_modules = kAsScenario;
  const WorkBound work = work_of(exposed_times(layout), layout);
  if (work.chain == INT64_MAX) return work;
  return {work.mean_rank - work.mean_rank / 1000, work.chain - work.chain / 1000};
}

// One pass over 4 samples takes no longer than 4 passes over 1: a GEMM is rounded up to whole tiles
// and waves, a kernel waits for its launch, a message has a latency. So all passes of an iteration
// take at least as long with micro batches of 1 as with 4. The largest micro batch is measured
// first. If the passes with 4 take 100 ms on the mean rank, and the least bound so far is 100 ms,
// then 1 and 2 cannot lower it and are skipped.
Nanoseconds StageLevel::cut_bound(std::span<const Layout> micro_batches) {
  if (micro_batches.empty()) return INT64_MAX;
  Plan plan = plan_of(base_, {micro_batches.front(), {default_order(1)}, {}});
  Nanoseconds least = INT64_MAX;
  std::vector<MicroBatch> measured;
  for (std::size_t i = micro_batches.size(); i-- > 0;) {  // from the largest down
    const Layout& layout = micro_batches[i];
    plan.micro_batch = layout.micro_batch;
    MicroBatch next{layout.micro_batch, rounded_counts(base_.job.model, plan)};
    const auto rules_out_next = [&](const MicroBatch& larger) {
      return larger.work.mean_rank >= least && larger.takes_no_longer_than_parts(next);
    };
    if (std::ranges::any_of(measured, rules_out_next)) continue;
    next.work = least_exposed_work(layout);
    if (next.work.iteration() == INT64_MAX) continue;
    least = std::min(least, next.work.iteration());
    // A measured cost table need not follow the rule: then all micro batches are measured.
    if (!base_.costs.table) measured.push_back(std::move(next));
  }
  // The rule itself holds up to rounding to nanoseconds: the bound is lowered by a thousandth
  // again.
  return least == INT64_MAX ? least : least - least / 1000;
}

RankEnds StageLevel::ends_bound(const Layout& layout, const Playing& playing) {
  const std::vector<PassTimes> passes = stages(layout);
  const OrderTraits& order = traits_of(base_, playing);
  const bool whole_backwards = !order.splits_backwards;
  const int chain_microbatches = layout.microbatches(base_) / order.chains;
  StageRanks placed{ranks_of_chain(order, layout.pp, layout.vpp),
                    std::vector<Nanoseconds>(layout.pp)};
  for (int rank = 0; rank + 1 < layout.pp; ++rank)
    placed.edges[rank] = transfer_ns(layout, rank, rank + 1);
  // By stage: the time before its first forward, and behind its last backward.
  std::vector<Nanoseconds> before(passes.size()), behind(passes.size());
  for (std::size_t s = 1; s < passes.size(); ++s) {
    before[s] = before[s - 1] + passes[s - 1].forward + placed.edge_before(s);
    behind[s] = behind[s - 1] + passes[s - 1].backward + placed.edge_before(s);
  }
  RankEnds ends;
  Nanoseconds iteration = 0;  // if backwards are not split
  for (const std::vector<int>& stages_here : stages_of_ranks(order, layout)) {
    Nanoseconds before_first = INT64_MAX, behind_last = INT64_MAX, work = 0;
    for (const int stage : stages_here) {
      const PassTimes& pass = passes[stage];
      before_first = std::min(before_first, before[stage]);
      behind_last = std::min(behind_last, behind[stage]);
      work += chain_microbatches * (whole_backwards ? pass.forward + pass.backward : pass.least());
    }
    if (!playing.overlap_p2p && layout.pp > 1)
      work += waits_bound(order, placed, chain_microbatches, static_cast<int>(ends.size()));
    ends.push_back(before_first + work);
    iteration = std::max(iteration, before_first + work + behind_last);
  }
  // The first stage's backward is the last of all, as it waits for those of the stages behind it.
  Nanoseconds& end_of_first_stage = ends[placed.rank_of.front()];
  if (whole_backwards) end_of_first_stage = std::max(end_of_first_stage, iteration);
  return ends;
}

// Returns at most the time of a collective over the data-parallel replicas of a rank's stages.
Nanoseconds StageLevel::data_ns(const Layout& layout, const OrderedPlan& plan, int rank,
                                CommKind kind, double bytes) {
  // In three cases groups are not a stage's replicas, and count as zero: two chains (groups span
  // two ranks), HSDP (groups of a cut, then of replicas), and ZeRO's hpZ (smaller groups).
  if (plan.copies > 1 || plan.hsdp_shard > 0 || plan.zero_hpz > 0) return 0;
  RankGroups groups = groups_.of_data(layout, kind, {rank});
  groups.stride = layout.tp;
  groups.size = layout.dp * layout.cp;
  groups.gathers_each_microbatch = plan.gathers_each_microbatch();
  // Bytes are rounded in each unit (layers, embedding, head): one byte less for each gives a bound.
  const double least = bytes - base_.job.model.layers - 2;
  return groups.size == 1 || least <= 0 ? 0 : groups_.alone_ns(groups, static_cast<Bytes>(least));
}

// Returns the time of the optimizer's step on each rank. Casts of weights are left out, which keeps
// it a bound. `ranks`: the stages of each.
std::vector<Nanoseconds> StageLevel::optimizer_ns(
    const OrderedPlan& plan, const std::vector<HeldParameters>& held,
    const std::vector<std::vector<int>>& ranks) const {
  std::vector<Nanoseconds> times(ranks.size());
  if (plan.copies > 1) return times;
  const FrameworkProfile& profile = base_.costs.profile;
  const CostModel cost = base_.cost_model();
  const std::vector<MuonShare> muon = muon_shares(base_.job.model, plan);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    times[rank] =
        to_ns(iteration_overhead_s(plan, profile, base_.job.model.layers / double(plan.pp)));
    for (const int stage : ranks[rank]) {
      const Kernel step = optimizer_kernel(plan, held[stage], /*linear=*/0, muon[stage], profile);
      if (!step.empty()) times[rank] += kernel_ns(cost, step);
    }
  }
  return times;
}

// An iteration consists of
//   ahead     the gather of the first stage's parameters, if it waits for it
//   reduced   all ranks' passes and the reductions of gradients that follow them
//   behind    the optimizer, and the gather of parameters after it
// and takes at least `lane`, the data-parallel communication of the busiest rank in a row.
Nanoseconds StageLevel::data_bound(const Candidate& candidate, const RankEnds& ends) {
  const auto& [layout, playing, sharing] = candidate;
  const OrderedPlan plan = ordered_plan(candidate);
  const std::vector<HeldParameters> held = stage_parameters(base_.job.model, plan);
  const OrderTraits& order = traits_of(base_, playing);
  const std::vector<std::vector<int>> ranks = stages_of_ranks(order, layout);
  const std::vector<Nanoseconds> optimizer = optimizer_ns(plan, held, ranks);
  const CommKind reduce = plan.zero == 0 ? CommKind::AllReduce : CommKind::ReduceScatter;
  const double gradient_bytes = bytes_of(plan.gradient_dtype);
  const double parameter_bytes = gathered_parameter_bytes(plan);  // embedding and head: no less
  const auto reduce_ns = [&](int rank, double parameters) {
    return data_ns(candidate.layout, plan, rank, reduce, parameters * gradient_bytes);
  };
  const auto gather_ns = [&](int rank, double parameters) {
    return data_ns(candidate.layout, plan, rank, CommKind::AllGather, parameters * parameter_bytes);
  };
  const bool has_buckets = buckets_first_stage(sharing, order.chains);
  const bool gathers_often = plan.gathers_each_microbatch();
  const bool gathers_at_end = plan.zero < 3 && !sharing.param_gather;
  Nanoseconds reduced = 0, behind = 0, lane = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    double parameters = 0, last_reduced = std::numeric_limits<double>::infinity();
    for (const int stage : ranks[rank]) {
      parameters += held[stage].dense;
      // At least the smallest stage is still to be reduced after the rank's last pass. If that is
      // the first stage in buckets, only its last bucket is, which may be tiny.
      last_reduced = std::min(last_reduced, stage == 0 && has_buckets ? 0 : held[stage].dense);
    }
    const Nanoseconds reductions_ns = plan.reductions() * reduce_ns(rank, parameters);
    const Nanoseconds one_gather = plan.zero == 0 ? 0 : gather_ns(rank, parameters);
    const Nanoseconds gathers_ns = plan.gathers() * one_gather;
    lane = std::max(lane, reductions_ns + gathers_ns);
    Nanoseconds end = ends[rank];
    if (!sharing.grad_reduce) end += reductions_ns;
    if (sharing.grad_reduce && layout.pp > 1) end += reduce_ns(rank, last_reduced);
    if (gathers_often && !sharing.param_gather) end += gathers_ns;
    reduced = std::max(reduced, end);
    behind = std::max(behind, optimizer[rank] + (gathers_at_end ? one_gather : 0));
  }
  Nanoseconds ahead = 0;
  if (sharing.param_gather && layout.pp > 1 && base_.job.bucket_bytes == 0 && !has_buckets)
    ahead = gather_ns(order.placement.rank_of(0, layout.pp, layout.vpp), held[0].dense);
  // The gradient norm's all-reduce keeps every rank's optimizer waiting for all reductions.
  return std::max(lane, ahead + reduced + behind);
}

}  // namespace tandem
