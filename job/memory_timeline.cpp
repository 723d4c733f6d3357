// Goes through each rank's actions in order: a forward adds a microbatch's activations of its
// stage, a backward frees them. An input gradient keeps the part that the weight gradient needs,
// which then frees it. PlanMemory gives their bytes; no times are needed. Times of the steps come
// from a trace (StepEnds).
#include "job/memory_timeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "schedule/lowering/lower_pass.h"
#include "schedule/order/vocabulary.h"

namespace tandem {
namespace {

// Counts the microbatches whose activations are held (live) in each stage of a rank.
class LiveStages {
 public:
  LiveStages(const Order& order, const std::vector<int>& rank_of, int rank) : place_(order.stages) {
    for (int stage = 0; stage < order.stages; ++stage) {
      if (rank_of[stage] != rank) continue;
      place_[stage] = live_.size();
      live_.push_back({static_cast<Stage>(stage % (order.stages / order.chains))});
    }
  }

  // Carries out an action. Returns whether it changes the live activations.
  bool act(const Action& action) {
    switch (action.kind) {
      case ActionKind::Forward:
        return add(action, 1, 0);
      case ActionKind::Backward:
        return add(action, -1, 0);
      case ActionKind::BackwardInput:
        return add(action, -1, 1);
      case ActionKind::BackwardWeight:
        return add(action, 0, -1);
      default:
        return false;
    }
  }

  const std::vector<LiveActivations::Entry>& now() const { return live_; }
  // Return the microbatches of all stages: from F to B or W, and from I to W.
  int held() const { return held_; }
  int waiting() const { return waiting_; }

 private:
  bool add(const Action& action, int microbatches, int stashed) {
    LiveActivations::Entry& entry = live_[place_[index(action.stage)]];
    entry.microbatches += microbatches;
    entry.stashed += stashed;
    held_ += microbatches + stashed;
    waiting_ += stashed;
    return true;
  }

  std::vector<LiveActivations::Entry> live_;
  std::vector<std::size_t> place_;  // by stage: its index in live_
  int held_ = 0, waiting_ = 0;
};

}  // namespace

LiveActivations live_activations(const Order& order) {
  LiveActivations live;
  if (order.vocabulary > 0) live.outputs = peak_outputs(order);
  const std::vector<int> rank_of = stage_to_rank(order);
  bool has_waiting = false;
  for (int rank = 0; rank < order.pp(); ++rank) {
    LiveStages now(order, rank_of, rank);
    auto& fullest = live.ranks.emplace_back(now.now());
    auto& latest = live.waiting.emplace_back(now.now());
    int most = 0;
    std::pair<int, int> most_waiting = {0, 0};
    for (const Action& action : order.ranks[rank]) {
      now.act(action);
      if (order.trades_layers && action.with_next) continue;  // the step goes on
      if (now.held() > most) {
        most = now.held();
        fullest = now.now();
      }
      if (const std::pair waiting(now.waiting(), now.held()); waiting > most_waiting) {
        most_waiting = waiting;
        latest = now.now();
      }
    }
    has_waiting |= most_waiting.first > 0;
  }
  if (!has_waiting) live.waiting.clear();
  return live;
}

const MemoryTimeline::Step& MemoryTimeline::peak() const {
  CHECK(steps.size() > 1);
  return *std::ranges::max_element(steps.begin() + 1, steps.end(), {}, &Step::activations);
}

std::vector<MemoryTimeline> memory_timelines(const Model& model, const OrderedPlan& plan,
                                             const Order& order, double workspace_bytes) {
  const std::vector<int> outputs = peak_outputs(order);
  const std::vector<int> rank_of = stage_to_rank(order);
  const PlanMemory plan_memory(model, plan);
  std::vector<MemoryTimeline> timelines;
  for (int rank = 0; rank < order.pp(); ++rank) {
    // With vocabulary parallelism, a microbatch's logits are held between its output passes S and
    // T. The most microbatches that are ever between the two are counted all the time.
    LiveStages live(order, rank_of, rank);
    const auto memory_now = [&] { return plan_memory.of_rank(live.now(), outputs[rank]); };
    MemoryTimeline& timeline = timelines.emplace_back(MemoryTimeline{rank, memory_now(), {}});
    timeline.held.activations = 0;
    timeline.held.workspace = workspace_bytes;
    timeline.steps.push_back({std::nullopt, memory_now().activations});
    for (const Action& action : order.ranks[rank]) {
      // Passes that run together layer by layer make one step, at the end of the second pass.
      const bool goes_on = order.trades_layers && action.with_next;
      if (live.act(action) && !goes_on)
        timeline.steps.push_back({action, memory_now().activations});
    }
  }
  return timelines;
}

std::vector<MemoryPart> peak_parts(const Model& model, const OrderedPlan& plan, const Order& order,
                                   const MemoryTimeline& timeline) {
  const int rank = timeline.pipeline_rank;
  LiveStages live(order, stage_to_rank(order), rank);
  const std::optional<Action>& peak = timeline.peak().action;
  for (const Action& action : order.ranks[rank]) {
    live.act(action);
    if (peak && action == *peak) break;
  }
  return memory_parts(model, plan, live.now(), peak_outputs(order)[rank]);
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
