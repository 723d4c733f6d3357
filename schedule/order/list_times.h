// The times of a list scheduling problem in whole ticks, and the ranks of its stages.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/order/list_scheduler.h"

namespace tandem {

// Time in whole ticks, so that times that are equal compare equal.
using Ticks = std::int64_t;
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

// The problem's times in ticks. REQUIRES: as schedule_greedily(); the problem outlives this.
class ListTimes {
 public:
  explicit ListTimes(const ListProblem& problem);

  struct StageTicks {
    Ticks forward = 0, input = 0, weight = 0;
  };

  const ListProblem& problem;
  std::vector<StageTicks> stages;
  Ticks turn = 0;    // from the end of the last stage's F to its I
  Ticks period = 0;  // the busiest rank's work for a microbatch

  int last_stage() const { return static_cast<int>(stages.size()) - 1; }
  int rank_of(int stage) const { return stage < problem.pp ? stage : 2 * problem.pp - 1 - stage; }
  int stage_of(int rank, int chunk) const { return chunk == 0 ? rank : 2 * problem.pp - 1 - rank; }
  Ticks transfer(int from, int to) const { return rank_of(from) == rank_of(to) ? 0 : transfer_; }
  // Returns the index of (stage, microbatch) in a table by stage and microbatch.
  std::size_t slot(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * problem.microbatches + microbatch;
  }

 private:
  Ticks transfer_ = 0;
};

// The quality of an order. Less is better, compared in this order.
struct ListOutcome {
  Ticks makespan = kNever;
  Ticks window = 0;  // the longest time from a rank's first action to its last
  int peak = 0;      // the most activations between F and I on a rank

  auto operator<=>(const ListOutcome&) const = default;
};

}  // namespace tandem
