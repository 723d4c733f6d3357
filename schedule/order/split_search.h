// Split search: from splits of layers over stages to better ones, a layer at a time.
#pragma once

#include <functional>
#include <vector>

#include "schedule/order/layer_split.h"
#include "schedule/order/repeated_replay.h"

namespace tandem {

// What a split comes to: those that fit go before those that do not.
struct SplitValue {
  bool fits = true;
  double time = 0;

  bool better_than(const SplitValue& other) const {
    return fits != other.fits ? fits : time < other.time;
  }
};

// What a search asks of a split.
struct SplitQuestions {
  std::function<SplitValue(const std::vector<int>&)> value;
  // By stage, the passes on its longest way: a move that does not shorten that cannot be better.
  // Empty, or null: not known, all moves may be.
  std::function<std::vector<PathPasses>(const std::vector<int>&)> longest_way = {};
};

// The best first: the splits passed by from each of `starts` on, a layer going from one stage to
// another, those that promise most tried first, until `most` splits have been asked for, an equal
// share a start. The same input gives the same splits.
std::vector<std::vector<int>> refined_splits(const LayerCosts& costs,
                                             const std::vector<std::vector<int>>& starts, int most,
                                             const SplitQuestions& ask);

}  // namespace tandem
