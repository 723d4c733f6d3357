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

// The functions by which the caller evaluates a split.
struct SplitQuestions {
  std::function<SplitValue(const std::vector<int>&)> value;
  // Returns the passes of each stage on the critical path. A move that does not shorten this path
  // cannot be better, and is not tried. An empty result, or null: not known, so all moves are
  // tried.
  std::function<std::vector<PathPasses>(const std::vector<int>&)> longest_way = {};
};

// Returns the splits that a hill climb from each of `starts` went through, the best first. A step
// moves a layer from one stage to another; the most promising moves are tried first. At most `most`
// splits are evaluated, an equal share for each start. The same input gives the same splits.
std::vector<std::vector<int>> refined_splits(const LayerCosts& costs,
                                             const std::vector<std::vector<int>>& starts, int most,
                                             const SplitQuestions& ask);

}  // namespace tandem
