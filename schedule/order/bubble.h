// Bubble: why the ranks of an order idle, as parts that add up to it.
#pragma once

#include <span>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// The bubble is what the order takes beyond the mean rank's work. It is told from the rank that
// works most: of its idle time, what transfers cost (the same order is replayed without them), then
// without transfers what lies before its first action, behind its last and between; and by how much
// it works more than the mean. In the unit of the costs; parts may be below zero by rounding alone.
struct Bubble {
  double makespan = 0;
  double work = 0;  // of the mean rank

  int rank = 0;       // that works most; of equal ones the one that idles least on its way
  double most = 0;    // its work
  int stage = 0;      // its longest one
  double stages = 1;  // how many times the mean stage that takes

  double transfers = 0;
  double fill = 0;       // until its first action
  double drain = 0;      // from its last action on
  double imbalance = 0;  // of its work over the mean rank's
  // Between, where it idles with nothing to do; with a forward to do, but as many activations held
  // as it ever holds; with something to do that the order has put behind.
  double waiting = 0, memory = 0, postponed = 0;

  double total() const { return makespan - work; }
};

// REQUIRES: validate(order).ok(); an entry a stage.
Bubble explain_bubble(const Order& order, std::span<const OrderCosts> stages);

}  // namespace tandem
