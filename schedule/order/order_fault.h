// OrderFault: what is wrong with an order, and where. validate() reports it, explain_fault() marks
// it in the grid.
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
  int rank = -1;            // rank whose actions are at fault; -1: no single rank
  std::vector<Step> steps;  // bad step, or steps of the cycle; none if one is missing
};

// Returns nothing for a valid order, as order.h defines it.
std::optional<OrderFault> find_fault(const Order& order);

}  // namespace tandem
