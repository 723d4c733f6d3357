// OrderReplay: plays an order and gives the time of each action. Transfers delay their receivers
// but never wait for each other.
#pragma once

#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"
#include "schedule/order/order_text.h"

namespace tandem {

// The start and end of each action, in the costs' unit. If the order deadlocks, `reached` says how
// far each rank comes. An action that computes nothing takes no time and waits for nothing. Actions
// that run together wait until all of them are ready, and then run one after another.
struct OrderReplay {
  struct Span {
    double start = -1, end = -1;  // -1: not reached
  };

  std::vector<std::vector<Span>> spans;  // by rank and position
  std::vector<int> reached;              // by rank: the first position not played
  double makespan = 0;

  bool finished(int rank) const { return reached[rank] == static_cast<int>(spans[rank].size()); }
};

// Plays the order. REQUIRES: each stage and microbatch has one F, and one B or one I and one W, on
// the stage's one rank. With vocabulary passes each rank has each of them once a microbatch.
OrderReplay replay_order(const Order& order, const GridCosts& costs);
// Plays the order with times by stage. A transfer to another rank takes the sending stage's time.
// Transfers do not queue. REQUIRES: an entry for each stage.
OrderReplay replay_stages(const Order& order, std::span<const OrderCosts> stages,
                          const VocabularyCosts& vocabulary = {});

// Returns the duration of an action that computes.
double cost_of(const GridCosts& costs, ActionKind kind);

// Returns the first position after `position` that is not part of its compound cell.
int end_of_cell(const std::vector<Action>& actions, int position);

}  // namespace tandem
