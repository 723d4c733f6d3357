// Memory follows from the order alone: each forward adds a microbatch's activations of its stage,
// and each backward or input gradient frees them. Bytes come from the model's PlanMemory, times
// from a trace (StepEnds).
#include "job/memory_timeline.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/order/vocabulary.h"

namespace tandem {
namespace {

OpKind op_kind(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return OpKind::Forward;
    case ActionKind::Backward:
      return OpKind::Backward;
    case ActionKind::BackwardInput:
      return OpKind::BackwardInput;
    default:
      return OpKind::BackwardWeight;
  }
}

}  // namespace

LiveActivations live_activations(const Order& order) {
  LiveActivations live;
  const std::vector<int> rank_of = stage_to_rank(order);
  const std::vector<std::vector<int>> peaks = peak_live(order);
  live.ranks.resize(order.ranks.size());
  if (order.vocabulary > 0) live.outputs = peak_outputs(order);
  for (int stage = 0; stage < order.stages; ++stage) {
    auto& entries = live.ranks[rank_of[stage]];
    const int in_chain = stage % (order.stages / order.chains);
    entries.push_back({static_cast<Stage>(in_chain), peaks[rank_of[stage]][entries.size()]});
  }
  return live;
}

const MemoryTimeline::Step& MemoryTimeline::peak() const {
  return *std::ranges::max_element(steps, {}, &Step::activations);
}

std::vector<MemoryTimeline> memory_timelines(const Model& model, const OrderedPlan& plan,
                                             const Order& order, double workspace_bytes) {
  const std::vector<int> rank_of = stage_to_rank(order);
  const std::vector<int> outputs = peak_outputs(order);
  const PlanMemory plan_memory(model, plan);
  std::vector<MemoryTimeline> memories;
  for (int rank = 0; rank < order.pp(); ++rank) {
    // With vocabulary parallelism, a microbatch's logits are held between its two output passes, S
    // and T. The most microbatches that are ever between them are counted all the time.
    const auto memory_with = [&](const std::vector<LiveActivations::Entry>& live) {
      return plan_memory.of_rank(live, outputs[rank]);
    };
    std::vector<LiveActivations::Entry> live;
    std::vector<std::size_t> place(order.stages);
    for (int stage = 0; stage < order.stages; ++stage) {
      if (rank_of[stage] != rank) continue;
      place[stage] = live.size();
      live.push_back({static_cast<Stage>(stage % (order.stages / order.chains)), 0});
    }
    MemoryTimeline& memory = memories.emplace_back(MemoryTimeline{rank, memory_with(live), {}});
    memory.held.activations = 0;
    memory.held.workspace = workspace_bytes;
    memory.steps.push_back({});
    for (const Action& action : order.ranks[rank]) {
      const bool grows = action.kind == ActionKind::Forward;
      if (!grows && !produces_gradient(action.kind)) continue;
      live[place[index(action.stage)]].microbatches += grows ? 1 : -1;
      memory.steps.push_back({action, memory_with(live).activations});
    }
  }
  return memories;
}

StepEnds::StepEnds(int pipeline_rank, int pipeline_ranks, const Program& program,
                   const Trace& trace) {
  const std::size_t gpu = program.ranks.size() / pipeline_ranks * pipeline_rank;
  const int body = program.ranks[gpu].body;
  const auto played = std::ranges::find(trace.ranks, body, &RankTrace::body);
  CHECK(played != trace.ranks.end());
  const std::span<const EventTimes> events = trace.events_of(program, *played);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Op& op = program.bodies[body].ops[i];
    if (!is_compute(op.kind)) continue;
    Nanoseconds& end = ends_[{op.kind, op.stage, op.microbatch}];
    end = std::max(end, events[i].end_ns);
  }
}

Nanoseconds StepEnds::of(const MemoryTimeline::Step& step) const {
  if (!step.action) return 0;
  const auto& [stage, kind, microbatch, with_next] = *step.action;
  return ends_.at({op_kind(kind), index(stage), index(microbatch)});
}

}  // namespace tandem
