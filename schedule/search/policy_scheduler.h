// PolicyScheduler: list scheduling by a policy of numbers, fast enough to try thousands of them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/search/search_problem.h"

namespace tandem {

// How the ranks decide. What is ready and has the least turn is done first; a microbatch's turn is
// its stage's plus the microbatch's number times `period`. So numbers far apart and no period are
// a fixed preference, and the times of one microbatch with its period are a building block (Qi et
// al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, 2), squeezed together.
struct SchedulePolicy {
  struct StageTurns {
    double forward = 0, input = 0, weight = 0;
    int most_live = 1 << 30;  // microbatches between F and I: more would only run ahead

    bool operator==(const StageTurns&) const = default;
  };
  std::vector<StageTurns> stages;
  double period = 0;
  // A rank waits for what comes before its turn, within this share of what it would do instead:
  // of a W, and of an F or an I.
  double patience = 0, other_patience = 0;
  bool free_first = false;  // a W goes first where only memory keeps a forward back
  bool whole = false;       // each backward is one action
  // Microbatches that enter at once, the others one in each `entry_period`; -1: all at once.
  int pace = -1;
  double entry_period = 0;

  bool operator==(const SchedulePolicy&) const = default;
};

// The actions of every rank, and when the last one ends: as early as those before it let it.
struct PolicyOutcome {
  double makespan = 0;
  double ends = 0;  // of all ranks, added up: tells apart what ends at the same time

  auto operator<=>(const PolicyOutcome&) const = default;
};

// Plays policies on one problem. REQUIRES: can_fit(problem), which outlives it.
class PolicyScheduler {
 public:
  explicit PolicyScheduler(const SearchProblem& problem);

  // Never more bytes than the limits, and whatever the policy every action is done once: an F
  // leaves room for a microbatch of all later stages of its rank, so what is in flight comes back.
  PolicyOutcome play(const SchedulePolicy& policy);
  // Of the policy played last.
  Order order() const;

 private:
  using Ticks = std::int64_t;
  enum Pass : std::uint8_t { kForward, kInput, kWeight, kPasses };

  // What a stage does next in one pass.
  struct Next {
    Ticks comes = 0;  // when it has what it waits for; kNever: not known yet, or none is left
    double turn = 0;
  };
  struct StageState {
    Next next[kPasses];
    int done[kPasses] = {};
    Ticks duration[kPasses] = {};
    int rank = 0;
    Ticks transfer_on = 0, transfer_back = 0;  // to the next stage, and to the one before
    double live_bytes = 0, stash_bytes = 0;
    double room_bytes = 0;  // that a forward needs: its own, and of the rank's later stages
    std::vector<Ticks> forward_end, input_end;  // by microbatch
  };
  struct RankState {
    std::vector<int> stages;
    Ticks free_at = 0;
    double held_bytes = 0, limit_bytes = 0;
  };
  // What a rank does when it may decide again.
  struct Choice {
    int stage = -1;
    Pass pass = kForward;
  };

  void reset();
  Ticks comes(int stage, Pass pass) const;
  void look_ahead(int stage, Pass pass);
  void decide(int rank);
  Choice wait_for(const RankState& by, Choice choice, Ticks* at) const;
  void start(int rank);

  const SearchProblem& problem_;
  const SchedulePolicy* policy_ = nullptr;
  double ticks_of_unit_ = 1;
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<Choice> choices_;  // by rank
  std::vector<Ticks> begins_;    // by rank: when the choice begins; kNever: there is none
  std::vector<std::vector<Action>> actions_;
};

}  // namespace tandem
