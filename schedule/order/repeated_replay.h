// RepeatedReplay: plays one order again and again, each time with other times of its stages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// The passes of a stage on the longest path through an iteration. A whole backward counts as an
// input gradient and a weight gradient.
struct PathPasses {
  int forward = 0, input = 0, weight = 0;
};

class RepeatedReplay {
 public:
  // Finds once which action waits for which. REQUIRES: as replay_order(), without vocabulary
  // passes, and the order can be played to its end.
  explicit RepeatedReplay(const Order& order);

  // Returns the makespan of replay_stages(). REQUIRES: an entry for each stage.
  double makespan(std::span<const OrderCosts> stages);
  // Returns the passes of each stage on the critical path of the last makespan(). If the stages'
  // times change, the new makespan is at least the new length of this path.
  std::vector<PathPasses> longest_way() const;

 private:
  // An action. Actions that run together each have one more step, which takes no time and waits for
  // the action's input. These extra steps come before all of the actions, so that the actions start
  // together.
  struct Step {
    int rank = 0;
    int time = 0;      // its place in times_
    int previous = 0;  // the rank's step before, or -1
    int input = 0;     // the step on another rank whose output it waits for, or -1
    int transfer = 0;  // that transfer's place in times_
  };

  class StepMaker;

  // The indices of a stage's times in times_, from stage x Kinds on. The last entry of times_ is 0.
  enum TimeOf { Forward, Backward, Input, Weight, Transfer, Kinds };
  static TimeOf time_of(ActionKind kind);

  std::vector<Step> steps_;  // in topological order
  std::vector<double> times_;
  std::vector<double> ends_;    // by step
  std::vector<double> clocks_;  // by rank
  int stages_ = 0;
};

}  // namespace tandem
