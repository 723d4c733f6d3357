// Skeletons: orders that are known from the sizes alone. Filled with W anew, they become orders for
// given costs (schedule/order/weight_fill.h).
#pragma once

#include <vector>

#include "schedule/order/order.h"

namespace tandem {

struct Skeleton {
  std::vector<std::vector<Action>> ranks;
  bool has_weights = false;  // it is an order by itself, with every W in it
};

// Those of a pipeline of one stage a rank, or of two in a V, that fit under a limit of activations
// a rank from F to W (with one stage a rank: if W comes in time); the same number of them whatever
// the microbatches.
//
// One stage a rank: 1F1B, and as many forwards at the start as a rank has time for. A V: ZBV's, in
// which F, I and W of the two chunks take turns; where memory is too short for that, the blocks of
// V-Half or V-Min, squeezed (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, 3).
//
// With a microbatch more a rank does the same up to its last forward of chunk 0, from pp + 5
// microbatches on.
int skeleton_count(int pp, int chunks, int memory_limit);
// REQUIRES: which < skeleton_count. No ranks: this one does not fit.
Skeleton make_skeleton(int which, int pp, int chunks, int microbatches, int memory_limit);

}  // namespace tandem
