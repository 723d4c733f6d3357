// Search: the best plans of a space, by branch and bound, best bound first.
//
// A branch is a layout; its branches are the ways to play it; theirs the ways to share parameters.
// Each has a bound below the iteration of all that hangs on it (stage_level.h), and a floor below
// its memory. Whatever has the lowest bound is looked at next, and nothing whose bound is above the
// worst plan that is kept: so the answer is that of trying all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planning/tune/space.h"
#include "planning/tune/stage_level.h"

namespace tandem {

struct Found {
  Candidate candidate;
  Nanoseconds iteration_ns = 0;  // at stage level
};

// Plans, by what became of them.
struct SearchCounts {
  std::int64_t enumerated = 0;
  std::int64_t memory = 0;      // beyond the GPU's: by the floor, or by what their order holds
  std::int64_t work = 0;        // their layout's work alone is longer
  std::int64_t pipeline = 0;    // with the bubble and the transfers that it cannot do without
  std::int64_t data = 0;        // with its least data-parallel communication
  std::int64_t scheduled = 0;   // played to the end
  std::int64_t orders = 0;      // orders that were played without data parallelism, for a bound
  std::int64_t unplayable = 0;  // lowering refused them
  std::int64_t left = 0;        // not looked at: stopped before
};

struct SearchResult {
  std::vector<Found>
      best;  // fastest first; of two of one tp, cp, ep, pp, vpp, dp and order the first
  SearchCounts counts;
};

struct SearchOptions {
  int keep = 5;
  std::function<bool(const Layout&)> wants = [](const Layout&) { return true; };  // only these
  std::function<bool()> stop = [] { return false; };                  // asked again and again
  std::function<void(const Found&)> on_better = [](const Found&) {};  // a new fastest plan
};

class Search {
 public:
  // Finds the space's layouts, and of how many of their plans memory may hold one. REQUIRES: all
  // outlive it.
  Search(
      const Scenario& base, const Space& space, StageLevel* level,
      const std::function<bool()>& stop = [] { return false; });

  bool complete() const { return !stopped_; }

  // The best plans of the layouts that are wanted.
  SearchResult best(const SearchOptions& options) const;

 private:
  friend class BranchAndBound;

  struct Known {
    Layout layout;
    Nanoseconds bound = 0;    // of its work
    std::int32_t plans = 0;   // that memory may hold
    std::int32_t others = 0;  // that it does not hold
  };

  const Scenario& base_;
  const Space& space_;
  StageLevel& level_;
  std::vector<Known> layouts_;
  bool stopped_ = false;
};

// The same without bounds: every plan that fits is played. For small spaces, and as a check.
SearchResult search_all(const Scenario& base, const Space& space, StageLevel* level, int keep);

}  // namespace tandem
