// MemoryTimeline: what a GPU of a pipeline rank holds as the iteration goes on.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/order/order.h"
#include "schedule/program/program.h"
#include "traces/trace.h"
#include "workload/model/workload.h"

namespace tandem {

// Activations grow with a forward and shrink with its backward (or its input gradient); all else
// stays.
struct MemoryTimeline {
  // From an action's end on; the first has none and is of the iteration's begin.
  struct Step {
    std::optional<Action> action;
    double activations = 0;  // bytes
  };
  int pipeline_rank = 0;
  MemoryUse held;  // without activations
  std::vector<Step> steps;

  // The first step with the most activations.
  const Step& peak() const;
};

// Of each rank at its peak (peak_live).
LiveActivations live_activations(const Order& order);

// One a pipeline rank; `workspace_bytes` are held all the time.
std::vector<MemoryTimeline> memory_timelines(const Model& model, const OrderedPlan& plan,
                                             const Order& order, double workspace_bytes);

// When a step's action has ended on the first GPU of its pipeline rank, or on the one that was
// played for it.
class StepEnds {
 public:
  StepEnds(int pipeline_rank, int pipeline_ranks, const Program& program, const Trace& trace);

  Nanoseconds of(const MemoryTimeline::Step& step) const;

 private:
  std::map<std::tuple<OpKind, int, int>, Nanoseconds> ends_;  // by kind, stage and microbatch
};

}  // namespace tandem
