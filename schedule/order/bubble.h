// Bubble: splits the idle time of an order into parts by cause.
#pragma once

#include <span>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// The bubble is the makespan minus the mean rank's work. Its parts are those of the rank that works
// most, and add up to the bubble:
// - transfers: the makespan, with transfers one after another on an edge, minus that of a replay
//   without transfers
// - fill, drain, waiting, memory, postponed: the rank's idle time in that replay
// - imbalance: the rank's work minus the mean rank's
// Times are in the unit of the costs; parts are below zero only by rounding.
struct Bubble {
  double makespan = 0;
  double work = 0;  // of the mean rank

  int rank = 0;                    // the one that works most; of equal ones the least idle
  double own_work = 0;             // of that rank
  int stage = 0;                   // its longest stage
  double longest_stage_ratio = 1;  // that stage's time over the mean stage's

  // The parts of the bubble.
  double transfers = 0;
  double fill = 0;       // until its first action
  double drain = 0;      // after its last action
  double imbalance = 0;  // its work less the mean rank's
  // Idle time between its actions, by cause: no action is ready (waiting); only a forward is ready,
  // but the rank holds as many activations as at its peak (memory); an action is ready that the
  // order does later (postponed).
  double waiting = 0, memory = 0, postponed = 0;

  double total() const { return makespan - work; }
};

// REQUIRES: validate(order).ok(); an entry for each stage.
Bubble explain_bubble(const Order& order, std::span<const OrderCosts> stages);

}  // namespace tandem
