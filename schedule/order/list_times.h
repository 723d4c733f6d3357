// A list scheduling problem in whole ticks: the times and ranks of its stages, and the state of an
// order that is played at these times.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/order/list_scheduler.h"

namespace tandem {

// Time in whole ticks, so that times that are equal compare equal.
using Ticks = std::int64_t;
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();
// The ticks of the longest cost: the least common multiple of 1 to 16. So 3/7 of the longest cost,
// say, is a whole number of ticks.
inline constexpr double kTicksOfLongest = 720'720;

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

// The actions that a scheduler has played so far, and the state of stages and ranks after them.
class ListState {
 public:
  // REQUIRES: `times` outlives this.
  explicit ListState(const ListTimes& times);

  struct StageState {
    int forwards = 0, inputs = 0, weights = 0;  // done, each in the order of the microbatches
  };
  struct RankState {
    Ticks first_start = kNever;
    Ticks free_at = 0;       // end of its last action
    int live = 0, held = 0;  // forwards without an I; forwards without a W
  };

  const StageState& stage(int stage) const { return stages_[stage]; }
  const RankState& rank(int rank) const { return ranks_[rank]; }
  // Returns the end of an I that is played.
  Ticks gradient_end(int stage, int microbatch) const {
    return gradient_end_[times_->slot(stage, microbatch)];
  }
  // Returns when the input of an F or I is there; kNever if that is not known yet.
  Ticks input_ready(const Action& action) const;
  // Adds the time from `now` until each input of the stage arrives that was sent and is not used
  // yet. An input that has arrived counts 0, however long ago it came.
  void add_arrivals(int stage, Ticks now, std::vector<Ticks>* waits) const;

  // Plays an action. Returns when it ends.
  Ticks play(const Action& action, Ticks start);

  ListOutcome outcome() const;

  std::vector<std::vector<Action>> actions;  // by rank

 private:
  const ListTimes* times_;
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<Ticks> forward_end_, gradient_end_;  // by stage and microbatch; kNever: not played
  int peak_ = 0;                                   // most live activations of a rank so far
};

}  // namespace tandem
