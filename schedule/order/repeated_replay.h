// RepeatedReplay: one order played again and again, each time with other times of its stages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// How many passes of a stage lie on the longest way through an iteration: a whole backward is an
// input's and a weight's.
struct PathPasses {
  int forward = 0, input = 0, weight = 0;
};

class RepeatedReplay {
 public:
  // Which action waits for which is found once. REQUIRES: as replay_order, without vocabulary
  // passes; an order that can be played to its end.
  explicit RepeatedReplay(const Order& order);

  // What replay_stages gives. REQUIRES: an entry a stage.
  double makespan(std::span<const OrderCosts> stages);
  // By stage, of the last makespan(): at other times of the stages an iteration takes that many
  // passes' time more, at least.
  std::vector<PathPasses> longest_way() const;

 private:
  // An action, or what one that runs together with others waits for.
  struct Step {
    int rank = 0;
    int time = 0;      // its place in times_
    int previous = 0;  // the rank's step before; -1: none
    int input = 0;     // the step on another rank whose output it waits for; -1: none
    int transfer = 0;  // the place in times_ of what that takes to come
  };

  class Making;

  // What times_ has of each stage; behind the last one a 0.
  enum TimeOf { Forward, Backward, Input, Weight, Transfer, Kinds };
  static TimeOf time_of(ActionKind kind);

  std::vector<Step> steps_;  // each behind those that it waits for
  std::vector<double> times_;
  std::vector<double> ends_;    // by step
  std::vector<double> clocks_;  // by rank
  int stages_ = 0;
};

}  // namespace tandem
