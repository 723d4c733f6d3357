// WeightFill: an order's forwards and input gradients as they are, and W put between them for
// given costs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "schedule/order/list_times.h"
#include "schedule/order/skeletons.h"

namespace tandem {

// A gap in which a W fits is filled. This is what becomes of a shorter one.
enum class FillRule : std::uint8_t {
  Always,          // W fills it, and what comes next starts late
  BeforeInputs,    // only where an input gradient comes next
  BeforeForwards,  // only where a forward comes next
  Never,           // the rank waits
  Evenly,          // W fills it where the rank would else have waited longer than any other
  AsGiven,         // no W moves, whatever the gaps
};

inline constexpr std::array kFillRules = {FillRule::Always,         FillRule::BeforeInputs,
                                          FillRule::BeforeForwards, FillRule::Never,
                                          FillRule::AsGiven,        FillRule::Evenly};

// Plays a skeleton, action by action behind what it waits for, and decides on W as it goes; so what
// comes next, and when, is known. REQUIRES: the skeleton is one of the times' problem, which has W
// for AsGiven; both outlive this.
class WeightFill {
 public:
  WeightFill(const ListTimes& times, const Skeleton& skeleton, FillRule rule);

  // False: the limits keep a rank from going on.
  bool run();
  // As greedy_rounds.
  OrderRounds find_rounds();
  // Of what was run.
  ListOutcome outcome() const;
  std::vector<std::vector<Action>> take_actions() { return std::move(actions_); }

 private:
  struct StageState {
    int forwards = 0, inputs = 0;  // done
  };
  struct RankState {
    std::size_t position = 0;  // in the skeleton
    Ticks first_start = kNever;
    Ticks now = 0;
    Ticks idle = 0;  // since its first action
    int live = 0, held = 0;
    std::deque<Action> weights;  // of input gradients that are done
  };
  enum class Progress : std::uint8_t { Done, Waits, Fails };

  // One action of the skeleton on each rank that can go on.
  Progress sweep();
  Progress step(int rank);
  // When what the action needs is there; kNever: that is not done yet.
  Ticks comes(const Action& action) const;
  bool fills(const RankState& by, ActionKind kind, Ticks gap) const;
  void do_weight(int rank);
  void add_state(std::vector<Ticks>* state) const;

  const ListTimes& times_;
  const Skeleton& skeleton_;
  const FillRule rule_;
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<Ticks> forward_end_, gradient_end_;  // by stage and microbatch
  std::vector<std::vector<Action>> actions_;
  Ticks most_idle_ = 0;  // of all ranks
  int peak_ = 0;
};

}  // namespace tandem
