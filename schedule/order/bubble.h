// Bubble: says why the ranks of an order idle, as parts that add up.
#pragma once

#include <span>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// The bubble is the time that an order takes beyond the mean rank's work. It is explained by the
// rank that works most. The cost of transfers comes from a replay of the same order without them.
// In that replay the rank idles before its first action, after its last, and between. The last part
// is how much more it works than the mean. Times are in the unit of the costs; parts are below zero
// only by rounding.
struct Bubble {
  double makespan = 0;
  double work = 0;  // of the mean rank

  int rank = 0;                    // the one that works most; of equals the one that idles least
  double own_work = 0;             // of that rank
  int stage = 0;                   // its longest stage
  double longest_stage_ratio = 1;  // its time over the mean stage's

  // The parts of the bubble.
  double transfers = 0;
  double fill = 0;       // until its first action
  double drain = 0;      // after its last action
  double imbalance = 0;  // its work less the mean rank's
  // Idle time between its actions: with nothing to do (waiting); with a forward to do, while it
  // holds as many activations as it ever does (memory); with something to do that the order does
  // later (postponed).
  double waiting = 0, memory = 0, postponed = 0;

  double total() const { return makespan - work; }
};

// REQUIRES: validate(order).ok(); an entry for each stage.
Bubble explain_bubble(const Order& order, std::span<const OrderCosts> stages);

}  // namespace tandem
