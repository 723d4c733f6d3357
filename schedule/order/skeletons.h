// Skeletons: orders that are known from the sizes alone. With W put in anew, they become orders for
// given costs (schedule/order/weight_fill.h).
#pragma once

#include <vector>

#include "schedule/order/order.h"

namespace tandem {

struct Skeleton {
  std::vector<std::vector<Action>> ranks;
  bool has_weights = false;  // it is a whole order, with every W in it
};

// The skeletons of a pipeline of one stage a rank, or of two in a V, that fit under a limit of
// activations a rank from F to W (with one stage a rank: if W comes in time). Their number does not
// depend on the microbatches.
//
// With one stage a rank they are 1F1B, and as many forwards at the start as a rank has time for. In
// a V it is ZBV's order, in which F, I and W of the two chunks take turns. Where memory is too
// short for that, they are the blocks of V-Half or V-Min, squeezed (Qi et al., "Pipeline
// Parallelism with Controllable Memory", 2024, 3).
//
// From pp + 5 microbatches on, one microbatch more changes nothing before a rank's last forward of
// chunk 0.
int skeleton_count(int pp, int chunks, int memory_limit);
// Makes one of them. Returns no ranks if it does not fit. REQUIRES: which < skeleton_count().
Skeleton make_skeleton(int which, int pp, int chunks, int microbatches, int memory_limit);

}  // namespace tandem
