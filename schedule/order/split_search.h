// Split search: improves splits of layers over stages, one moved layer at a time.
#pragma once

#include <functional>
#include <vector>

#include "schedule/order/layer_split.h"
#include "schedule/order/repeated_replay.h"

namespace tandem {

// The value of a split. Splits that fit come before those that do not.
struct SplitValue {
  bool fits = true;
  double time = 0;

  bool better_than(const SplitValue& other) const {
    return fits != other.fits ? fits : time < other.time;
  }
};

// The questions that a search asks of a split.
struct SplitQuestions {
  std::function<SplitValue(const std::vector<int>&)> value;
  // Returns the passes of each stage on the longest path: a move that does not shorten the path
  // cannot be better. Empty, or null: not known, so every move may be better.
  std::function<std::vector<PathPasses>(const std::vector<int>&)> longest_way = {};
};

// Returns the splits that the search visited from each of `starts`, the best first. It moves a
// layer from one stage to another, and tries the most promising moves first. `most` splits may be
// asked for in all, an equal share for each start. The same input gives the same splits.
std::vector<std::vector<int>> refined_splits(const LayerCosts& costs,
                                             const std::vector<std::vector<int>>& starts, int most,
                                             const SplitQuestions& ask);

}  // namespace tandem
