// OrderReplay: an order played rank by rank, communication a mere delay.
#pragma once

#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"
#include "schedule/order/order_text.h"

namespace tandem {

// When each action starts and ends, in the costs' unit; or how far an order comes that waits for
// itself. An action that computes nothing takes no time and waits for nothing. Actions that run
// together start when all of them can, and take their times one after the other.
struct OrderReplay {
  struct Span {
    double start = -1, end = -1;  // -1: not reached
  };

  std::vector<std::vector<Span>> spans;  // by rank and position
  std::vector<int> reached;              // by rank: the first position not played
  double makespan = 0;

  bool finished(int rank) const { return reached[rank] == static_cast<int>(spans[rank].size()); }
};

// REQUIRES: of the order's stages and microbatches, each (stage, microbatch) has one F and either
// one B or one I and one W, on the stage's one rank; of an order with vocabulary passes each rank
// has each of them once a microbatch.
OrderReplay replay_order(const Order& order, const GridCosts& costs);
// The same with times of each stage, and of a transfer between two ranks (the stage's that sends),
// which no lane carries one after the other. REQUIRES: an entry a stage.
OrderReplay replay_stages(const Order& order, std::span<const OrderCosts> stages,
                          const VocabularyCosts& vocabulary = {});

// The duration of an action that computes.
double cost_of(const GridCosts& costs, ActionKind kind);

// The first position after `position` that is not part of its compound cell.
int end_of_cell(const std::vector<Action>& actions, int position);

}  // namespace tandem
