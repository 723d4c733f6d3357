// Search: the best plans of a space, by branch and bound, best bound first.
//
// A branch is a cut of the model over the GPUs; its branches are layouts; theirs the ways to play
// one; theirs the ways to share parameters. Each has a bound below the iteration of all that hangs
// on it (stage_level.h), and a floor below its memory. Whatever has the lowest bound is looked at
// next, and nothing whose bound is above the worst plan that is kept: so the answer is that of
// trying all of them. The bound of a cut is that of what no setting hides: kernels, and some of the
// communication.
//
// Branches are looked at in rounds, whose parts share the threads: what is in a round follows from
// what was found in those before it, and so the answer does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planning/tune/space.h"
#include "planning/tune/stage_level.h"

namespace tandem {

struct Found {
  Candidate candidate;
  Nanoseconds iteration_ns = 0;  // at stage level

  bool operator==(const Found&) const = default;
};

// Plans, by what became of them.
struct SearchCounts {
  std::int64_t cuts = 0;         // of the model over the GPUs
  std::int64_t cuts_memory = 0;  // those whose state and buffers are beyond the GPU's memory
  std::int64_t cuts_work = 0;    // of which what no setting hides takes longer
  std::int64_t enumerated = 0;   // plans of the other cuts
  std::int64_t memory = 0;       // beyond the GPU's: by the floor, or by what their order holds
  std::int64_t work = 0;         // their layout's work alone is longer
  std::int64_t pipeline = 0;     // with the bubble and the transfers that it cannot do without
  std::int64_t data = 0;         // with its least data-parallel communication
  std::int64_t scheduled = 0;    // played to the end
  std::int64_t orders = 0;       // orders that were played without data parallelism, for a bound
  std::int64_t unplayable = 0;   // lowering refused them
  std::int64_t left = 0;         // not looked at: stopped before
  std::int64_t cuts_left = 0;    // the same, of cuts

  SearchCounts& operator+=(const SearchCounts& more);
  bool operator==(const SearchCounts&) const = default;
  bool found_none() const { return cuts_memory == 0 && enumerated == 0; }
};

struct SearchResult {
  std::vector<Found>
      best;  // fastest first; of two of one tp, cp, ep, pp, vpp, dp and order the first
  SearchCounts counts;
  bool complete = true;      // nothing was left because it was stopped
  Nanoseconds bound_ns = 0;  // that no plan takes less than, looked at or not; 0: not known
};

struct SearchOptions {
  int keep = 5;
  std::vector<Found> known = {};  // plans of the space that were played before
  // Only these; asked by all threads.
  std::function<bool(const Layout&)> wants = [](const Layout&) { return true; };
  std::function<bool()> stop = [] { return false; };  // asked again and again, by one thread
  // Asked by all threads within what takes long: what they are at is then left as it was.
  std::function<bool()> is_late = [] { return false; };
  std::function<void(const Found&)> on_better = [](const Found&) {};  // a new fastest plan
  // The fastest yet, and that no plan takes less than; as often as there is something to look at.
  std::function<void(const Found&, Nanoseconds bound_ns)> on_bound = [](const Found&, Nanoseconds) {
  };
};

class Search {
 public:
  // A thread for each of the levels, which stand beside one another. REQUIRES: all outlive it; one
  // level at least.
  Search(const Scenario& base, const Space& space, std::span<StageLevel> levels)
      : base_(base), space_(space), levels_(levels) {}

  // The best plans of the layouts that are wanted. What it finds out of cuts, later calls know.
  SearchResult best(const SearchOptions& options);

 private:
  friend class BranchAndBound;

  // A layout that memory may hold some plans of.
  struct Known {
    Layout layout;
    std::int32_t plans = 0;   // those
    std::int32_t others = 0;  // that it does not hold
  };
  struct Cut {
    Layout cut;
    bool holds_state = true;
    Nanoseconds bound = 0;
    bool is_open = false;  // its layouts are known
    std::vector<Known> layouts;
    std::int64_t others = 0;  // plans of layouts that memory holds none of
  };

  void find_cuts(const SearchOptions& options);
  Cut bounded(const Layout& cut, StageLevel* level) const;
  void open(Cut* cut, const StageLevel& level, const SearchOptions& options) const;

  const Scenario& base_;
  const Space& space_;
  std::span<StageLevel> levels_;
  std::vector<Cut> cuts_;
  bool knows_cuts_ = false;
  std::int64_t unbounded_cuts_ = 0;  // where they are not known
};

// The same without bounds: every plan that fits is played. For small spaces, and as a check.
SearchResult search_all(const Scenario& base, const Space& space, StageLevel* level, int keep);

}  // namespace tandem
