// What is wrong with an order, and where: validate() reports it, explain() marks it in the grid.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/order/order.h"

namespace tandem {

struct OrderFault {
  // A place in Order::ranks[rank].
  struct Step {
    int rank = 0;
    int position = 0;
  };

  std::string message;      // one line: what was found, what was expected
  int rank = -1;            // whose actions are at fault; -1: no one rank's
  std::vector<Step> steps;  // the bad step, or the steps of the cycle; none where one is missing
};

// Nothing for a valid order: order.h says what that is.
std::optional<OrderFault> find_fault(const Order& order);

}  // namespace tandem
