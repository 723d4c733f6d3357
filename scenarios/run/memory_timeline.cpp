#include "scenarios/run/memory_timeline.h"

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

// The rank's stages with as many microbatches alive, in the order's numbering of stages.
using Live = std::map<int, int>;

// What peak_memory says of a rank that holds these; asked once for each.
class RankMemory {
 public:
  // `outputs`: of vocabulary parallelism the most microbatches between S and T, which count all the
  // time.
  RankMemory(const Model& model, const OrderedPlan& plan, int stages_of_chain, int outputs)
      : model_(model), plan_(plan), stages_of_chain_(stages_of_chain), outputs_(outputs) {}

  const MemoryUse& with(const Live& live) {
    const auto [at, is_new] = known_.try_emplace(live);
    if (is_new) {
      LiveActivations one{.ranks = {{}}, .outputs = {outputs_}};
      for (const auto& [stage, microbatches] : live)
        one.ranks[0].push_back({static_cast<Stage>(stage % stages_of_chain_), microbatches});
      at->second = peak_memory(model_, plan_, one);
    }
    return at->second;
  }

 private:
  const Model& model_;
  const OrderedPlan& plan_;
  int stages_of_chain_, outputs_;
  std::map<Live, MemoryUse> known_;
};

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
  std::vector<MemoryTimeline> memories;
  for (int rank = 0; rank < order.pp(); ++rank) {
    RankMemory rank_memory(model, plan, order.stages / order.chains, outputs[rank]);
    Live live;
    for (int stage = 0; stage < order.stages; ++stage) {
      if (rank_of[stage] == rank) live[stage] = 0;
    }
    MemoryTimeline& memory =
        memories.emplace_back(MemoryTimeline{rank, rank_memory.with(live), {}});
    memory.held.activations = 0;
    memory.held.workspace = workspace_bytes;
    memory.steps.push_back({});
    for (const Action& action : order.ranks[rank]) {
      const bool grows = action.kind == ActionKind::Forward;
      if (!grows && !produces_gradient(action.kind)) continue;
      live[index(action.stage)] += grows ? 1 : -1;
      memory.steps.push_back({action, rank_memory.with(live).activations});
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
