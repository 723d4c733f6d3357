// PolicyScheduler: list scheduling by a policy of numbers, fast enough to try thousands of
// policies.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/order/list_times.h"
#include "schedule/search/search_problem.h"

namespace tandem {

// The rule by which ranks choose their next action. A rank does the action that can begin first. If
// several can begin at that time, it does the one of the least turn:
//
//   turn = the stage's number for that kind of action + microbatch x period
//
// Example: two stages, period 3, all actions take 1. Stage 0: forward 0, input 3, weight 4,
// most_live 2. Stage 1: forward 1, input 2, weight 3. At time 3 stage 1 may do F1 (1 + 3 = 4) or W0
// (3 + 0 = 3), and does W0.
//
//   time      0  1  2  3  4  5  6  7
//   stage 0   F0 F1    I0 W0 F2 I1 W1
//   stage 1      F0 I0 W0 F1 I1 W1 F2
//
// With period 0 the numbers are a fixed preference: with 0 for all F, 1 for all I and 2 for all W,
// F goes before I, and I before W. If the numbers are the start times of one microbatch alone, and
// `period` the time between two microbatches, the policy follows a building block (Qi et al.,
// "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, 2), squeezed together.
struct SchedulePolicy {
  struct StageTurns {
    double forward = 0, input = 0, weight = 0;
    int most_live = 1 << 30;  // most microbatches between F and I

    bool operator==(const StageTurns&) const = default;
  };
  std::vector<StageTurns> stages;
  double period = 0;  // what each further microbatch adds to the turns
  // The longest time for which a rank postpones its choice to wait for an F or an I of an earlier
  // turn, as a share of the choice's duration: `patience` if the choice is a W, `other_patience` if
  // it is an F or an I.
  double patience = 0, other_patience = 0;
  // Whether a rank prefers a W to its choice if an F of an earlier turn waits for memory only.
  bool weights_first = false;
  bool whole = false;  // each backward is one action, I and W together
  // Microbatch m may enter stage 0 from (m - pace) x entry_period on, in the costs' unit; those
  // before `pace` at once. -1: all at once.
  int pace = -1;
  double entry_period = 0;

  bool operator==(const SchedulePolicy&) const = default;
};

// The quality of a played policy. Every action starts as early as those before it allow.
struct PolicyOutcome {
  double makespan = 0;
  double ends = 0;  // sum over all ranks; decides between equal makespans

  auto operator<=>(const PolicyOutcome&) const = default;
};

// Plays policies on one problem. REQUIRES: can_fit(problem); the problem outlives this.
class PolicyScheduler {
 public:
  explicit PolicyScheduler(const SearchProblem& problem);

  // Plays a policy. It keeps to the limits of bytes, and never deadlocks: an F leaves room for a
  // microbatch of all later stages of its rank, so that microbatches in flight can come back.
  PolicyOutcome play(const SchedulePolicy& policy);
  // Returns the order of the policy played last.
  Order order() const;

 private:
  enum Pass : std::uint8_t { kForward, kInput, kWeight, kPasses };

  // The next action of a stage in one pass.
  struct Next {
    Ticks input_ready = 0;  // as input_ready() returns
    double turn = 0;
  };
  struct StageState {
    Next next[kPasses];
    int done[kPasses] = {};
    Ticks duration[kPasses] = {};
    int rank = 0;
    Ticks transfer_on = 0, transfer_back = 0;  // to the next stage, and to the one before
    double live_bytes = 0, stash_bytes = 0;
    double room_bytes = 0;  // needed by a forward: its own and its rank's later stages'
    std::vector<Ticks> forward_end, input_end;  // by microbatch
  };
  struct RankState {
    std::vector<int> stages;
    Ticks free_at = 0;
    double held_bytes = 0, limit_bytes = 0;
  };
  // The action that a rank does when it may decide again.
  struct Choice {
    int stage = -1;
    Pass pass = kForward;
  };

  void reset();
  Ticks input_ready(int stage, Pass pass) const;
  Ticks forward_ready(int stage, int microbatch) const;
  void update_next(int stage, Pass pass);
  void decide(int rank);
  Choice wait_for(const RankState& rank, Choice choice, Ticks* begin) const;
  // Starts the rank's choice. Updates the actions that depend on it, and the choices of both ranks.
  void start(int rank);

  const SearchProblem& problem_;
  const SchedulePolicy* policy_ = nullptr;
  double ticks_of_unit_ = 1;
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<Choice> choices_;  // by rank
  std::vector<Ticks> begins_;    // by rank: when the choice begins; kNever: none
  std::vector<std::vector<Action>> actions_;
};

}  // namespace tandem
