// The policies that list scheduling tries. With one stage a rank there are twelve, which differ in
// preference, taper and patience. With two stages a rank in a V there are eight, and one more that
// follows a building block if memory is short.
#include "schedule/order/list_policies.h"

#include <iterator>

namespace tandem {
namespace {

// Eight policies chosen greedily from all 480: 24 preferences, W first or not, taper or not, and
// unpaced or a pace of 0, 1, 2 or 4. All were played on pipelines of 2 to 16 ranks with random
// costs. Each row is the policy that, added to the rows above it, comes closest to the best of all
// 480. With eight rows the mean is within 1 % of that best. Pace keeps the microbatches of a V
// apart where memory is short. Columns: preference, weights_first, taper, pace, patience, block.
constexpr Policy kPoliciesOfV[] = {
    {{kF1, kF0, kI0, kI1}, false, true, 4},       {{kF1, kF0, kI1, kI0}, true, true, 1},
    {{kF1, kI0, kF0, kI1}, true, true, kUnpaced}, {{kF1, kI0, kF0, kI1}, true, true, 2},
    {{kF1, kI1, kF0, kI0}, false, false, 1},      {{kF1, kI1, kF0, kI0}, true, true, 4},
    {{kF1, kI1, kF0, kI0}, true, true, 2},        {{kF1, kI0, kF0, kI1}, false, true, 0},
};
// If memory is short, a V also tries a policy that follows the building block of V-Half or V-Min.
// With F = I = W on 2 to 16 ranks, the policies above took up to two actions longer than those
// blocks squeezed together. In V-Half about 3 pp / 8 microbatches enter at once, before the first
// gradient. In V-Min they enter one a period.
Policy following(BuildingBlock block, int pp) {
  const int pace = block == BuildingBlock::Half ? (3 * pp + 7) / 8 : 1;
  return {{kF0, kF1, kI0, kI1}, true, true, pace, 0, block};
}

// Each is tried with three values of patience.
constexpr Policy kPoliciesOfOneChunk[] = {
    {{kF0, kI0, kF1, kI1}, false, true},
    {{kI0, kF0, kI1, kF1}, false, false},
    {{kI0, kF0, kI1, kF1}, false, true},
    {{kF0, kI0, kF1, kI1}, false, false},
};

}  // namespace

// A microbatch goes through a V in four legs. Forwards go down the ranks through chunk 0 and back
// up through chunk 1, gradients down through chunk 1 and back up through chunk 0. A leg down begins
// on rank 0, a leg up on rank pp - 1, in its first slot. It takes some slots a rank:
//
//                        V-Half                         V-Min
//   leg        first slot       slots a rank   first slot     slots a rank
//   F0 down    0                     2         0                   1
//   F1 up      2 pp - 1              1         pp                  1
//   I1 down    3 pp - 1 + later      2         2 pp + later        1
//   I0 up      5 pp - 1 + later      1         3 pp + later        1
BlockSlots slots_of(BuildingBlock block, int pp, int rank) {
  if (block == BuildingBlock::Half) {
    const int later = pp % 2 == 0 ? 3 : 0;
    return {{2 * rank, 3 * pp - 2 - rank},
            {6 * pp - 2 + later - rank, 3 * pp - 1 + later + 2 * rank}};
  }
  const int later = pp % 3 == 0 ? 2 : 0;
  return {{rank, 2 * pp - 1 - rank}, {4 * pp - 1 + later - rank, 2 * pp + later + rank}};
}

BuildingBlock block_for(int pp, int memory_limit) {
  if (memory_limit >= 2 * pp) return BuildingBlock::None;
  return memory_limit <= pp ? BuildingBlock::Third : BuildingBlock::Half;
}

std::vector<Policy> policies_of(int pp, int chunks, int memory_limit) {
  std::vector<Policy> policies;
  if (chunks == 1) {
    for (const double patience : {0., 0.5, 1.}) {
      for (Policy policy : kPoliciesOfOneChunk) {
        policy.patience = patience;
        policies.push_back(policy);
      }
    }
    return policies;
  }
  policies.assign(std::begin(kPoliciesOfV), std::end(kPoliciesOfV));
  const BuildingBlock block = block_for(pp, memory_limit);
  if (block != BuildingBlock::None) policies.push_back(following(block, pp));
  return policies;
}

}  // namespace tandem
