// Skeletons: orders of F and I (and sometimes W) that follow from the sizes alone. WeightFill
// (schedule/order/weight_fill.h) puts W into a skeleton for given costs.
#pragma once

#include <vector>

#include "schedule/order/order.h"

namespace tandem {

struct Skeleton {
  std::vector<std::vector<Action>> ranks;
  bool has_weights = false;  // whether it is a whole order, with every W in it
};

// Returns the number of skeletons of a pipeline of one stage a rank, or of two in a V, under a
// limit of activations a rank from F to W (with one stage a rank: if W comes in time). They are:
//
// - With one stage a rank: 1F1B, and an order with as many forwards at the start as a rank has time
//   for.
// - In a V: ZBV's order, in which F, I and W of the two chunks take turns. If memory is too short
//   for ZBV: the building blocks of V-Half or V-Min, squeezed in two ways (Qi et al., "Pipeline
//   Parallelism with Controllable Memory", 2024, 3).
//
// From pp + 5 microbatches on, one more microbatch changes nothing before a rank's last forward of
// chunk 0.
int skeleton_count(int pp, int chunks, int memory_limit);
// Makes the skeleton of that number. Returns no ranks if it does not fit. REQUIRES: which <
// skeleton_count().
Skeleton make_skeleton(int which, int pp, int chunks, int microbatches, int memory_limit);

}  // namespace tandem
