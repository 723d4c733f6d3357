// Search: finds the best plans of a space, by branch and bound, best bound first.
//
//   cut       how the model is cut over the GPUs: tp, cp, pp, dp, ep, ...
//   layout    all else that a stage's times depend on: vpp, micro batch, recompute, ...
//   playing   the order of the stages' passes, and whether transfers overlap
//   plan      a playing with a sharing: ZeRO, and overlap of gradients and parameters
//
// Each level branches into the next. A branch has a bound below the iteration time of all plans in
// it (stage_level.h), and a floor below their memory. The search takes the branch with the lowest
// bound next. It ends when that bound is above the slowest plan that is kept: no open branch can
// hold a faster one. So its answer is the same as that of trying all plans. The bound of a cut
// counts only what no setting hides: kernels, and some of the communication.
//
// Branches are taken in rounds, whose parts are shared among threads. A round depends only on what
// earlier rounds found, and so the answer does not depend on the number of threads.
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
  Nanoseconds iteration_ns = 0;  // played at stage level

  bool operator==(const Found&) const = default;
};

// Numbers of plans and cuts, by what the search did with them. A plan or cut takes too long if its
// bound is above the slowest plan that is kept.
struct SearchCounts {
  std::int64_t cuts = 0;         // ways to cut the model over the GPUs
  std::int64_t cuts_memory = 0;  // cuts whose state and buffers exceed the GPU's memory
  std::int64_t cuts_work = 0;    // cuts whose kernels and unhidden communication take too long
  std::int64_t enumerated = 0;   // plans of the other cuts
  std::int64_t memory = 0;       // plans beyond the GPU's memory, by floor or by their order
  std::int64_t work = 0;         // plans whose passes alone take too long
  std::int64_t pipeline = 0;     // plans that take too long with the least bubble and transfers
  std::int64_t data = 0;         // plans that take too long with the least data parallelism as well
  std::int64_t scheduled = 0;    // plans played to the end
  std::int64_t orders = 0;       // orders that were played without data parallelism, for a bound
  std::int64_t unplayable = 0;   // plans whose order or lowering was refused
  std::int64_t left = 0;         // plans not looked at because the search was stopped
  std::int64_t cuts_left = 0;    // cuts not looked at because the search was stopped

  SearchCounts& operator+=(const SearchCounts& more);
  bool operator==(const SearchCounts&) const = default;
  bool found_none() const { return cuts_memory == 0 && enumerated == 0; }
};

struct SearchResult {
  std::vector<Found> best;  // fastest first; one plan of each tp, cp, ep, pp, vpp, dp and order
  SearchCounts counts;
  bool complete = true;      // false: it was stopped before its end
  Nanoseconds bound_ns = 0;  // no plan of the space takes less; 0: not known
};

struct SearchOptions {
  int keep = 5;
  std::vector<Found> known = {};  // plans of the space that were already played
  // Restricts the search to these layouts. Called by all threads.
  std::function<bool(const Layout&)> wants = [](const Layout&) { return true; };
  std::function<bool()> stop = [] { return false; };  // called again and again, by one thread
  // Called by all threads during long steps. Once it returns true, the step that runs is given up,
  // and counts as not begun.
  std::function<bool()> is_late = [] { return false; };
  std::function<void(const Found&)> on_better = [](const Found&) {};  // a new fastest plan
  // Called once a round with the fastest plan so far, and a time that no plan of the space beats.
  std::function<void(const Found&, Nanoseconds bound_ns)> on_bound = [](const Found&, Nanoseconds) {
  };
};

// A layout, and how many of its plans may fit into memory and how many do not.
struct KnownLayout {
  Layout layout;
  std::int32_t may_fit = 0, too_large = 0;
};

class Search {
 public:
  // Uses one thread for each of `levels`, which come from StageLevel::beside(). REQUIRES: all
  // outlive it; at least one level.
  Search(const Scenario& base, const Space& space, std::span<StageLevel> levels)
      : base_(base), space_(space), levels_(levels) {}

  // Returns the best plans among the wanted layouts. Later calls reuse the bounds of cuts that this
  // one computes.
  SearchResult best(const SearchOptions& options);

 private:
  friend class BranchAndBound;

  struct Cut {
    Layout cut;
    bool holds_state = true;  // parameters, gradients and optimizer fit into memory
    Nanoseconds bound = 0;
    bool is_open = false;              // its layouts are listed
    std::vector<KnownLayout> layouts;  // those of which at least one plan may fit into memory
    std::int64_t too_large = 0;        // plans of the layouts that are not listed
  };

  void find_cuts(const SearchOptions& options);
  Cut with_bound(const Layout& cut, StageLevel* level) const;
  void list_layouts(Cut* cut, const StageLevel& level, const SearchOptions& options) const;

  const Scenario& base_;
  const Space& space_;
  std::span<StageLevel> levels_;
  std::vector<Cut> cuts_;
  bool knows_cuts_ = false;
  std::int64_t unbounded_cuts_ = 0;  // cuts without a bound, if the search for cuts was stopped
};

}  // namespace tandem
