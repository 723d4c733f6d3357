// MemoryTimeline: the memory that each pipeline rank's GPUs hold over an iteration.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/order/order.h"
#include "schedule/program/program.h"
#include "traces/trace.h"
#include "workload/memory/memory.h"
#include "workload/model/workload.h"

namespace tandem {

// A rank's memory after each of its actions. A forward adds activations, and its backward frees
// them. Where the backward is split, its weight gradient frees what its input gradient does not.
// All other memory is constant.
struct MemoryTimeline {
  // The memory from the end of an action until the next step. The first step has no action: it is
  // the iteration's start.
  struct Step {
    std::optional<Action> action;
    double activations = 0;  // bytes
  };
  int pipeline_rank = 0;
  MemoryUse held;  // the constant memory: all but activations
  std::vector<Step> steps;

  // Returns the first step with the most activations, of those with an action.
  const Step& peak() const;
};

// Returns the activations that each rank holds at two moments, each the first of its kind:
//   ranks     most microbatches of its stages are between F and B or W
//   waiting   most are between I and W, and of such moments most are held
LiveActivations live_activations(const Order& order);

// Returns one timeline for each pipeline rank. `workspace_bytes` are held all the time.
std::vector<MemoryTimeline> memory_timelines(const Model& model, const OrderedPlan& plan,
                                             const Order& order, double workspace_bytes);

// Returns the parts of the memory that the timeline's rank holds at its peak, without
// `held.workspace`. REQUIRES: the timeline is of this order.
std::vector<MemoryPart> peak_parts(const Model& model, const OrderedPlan& plan, const Order& order,
                                   const MemoryTimeline& timeline);

// Looks up when a step's action ended on the first GPU of its pipeline rank, or on the GPU that
// stands for it in a folded run.
class StepEnds {
 public:
  StepEnds(int pipeline_rank, int pipeline_ranks, const Program& program, const Trace& trace);

  Nanoseconds of(const MemoryTimeline::Step& step) const;

 private:
  std::map<std::tuple<OpKind, int, int>, Nanoseconds> ends_;  // by kind, stage and microbatch
};

}  // namespace tandem
