// Skeletons: orders of F and I (and sometimes W) that follow from the sizes alone. WeightFill
// (schedule/order/weight_fill.h) puts W into a skeleton for given costs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/order/list_scheduler.h"

namespace tandem {

struct Skeleton {
  std::vector<std::vector<Action>> ranks;
  bool has_weights = false;  // whether it is a whole order, with every W in it
};

enum class SkeletonKind : std::uint8_t {
  // With one stage a rank: 1F1B, and an order with as many forwards at the start as a rank has time
  // for. Their limit of activations holds if W comes in time.
  OneFOneB,
  ManyForwards,
  // In a V: ZBV's order, in which F, I and W of the two chunks take turns.
  Zbv,
  // In a V, if memory is too short for ZBV: the building blocks of V-Half or V-Min, squeezed in two
  // ways (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, 3). Steady blocks keep
  // their places once the pipeline is full.
  Blocks,
  SteadyBlocks,
};

// Returns the kinds to try for the problem.
std::vector<SkeletonKind> skeleton_kinds(const ListProblem& problem);
// Makes a skeleton. Returns nothing if it does not fit under the problem's memory limit. From
// pp + 5 microbatches on, one more microbatch changes nothing before a rank's last forward of chunk
// 0, so that greedy_rounds() can find the rounds of a long order in a shorter one.
std::optional<Skeleton> make_skeleton(SkeletonKind kind, const ListProblem& problem);

}  // namespace tandem
