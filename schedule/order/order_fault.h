// OrderFault: a mistake in an order, and where it is. validate() reports its message,
// explain_fault() marks its steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/order/order.h"

namespace tandem {

struct OrderFault {
  // The action Order::ranks[rank][position].
  struct Step {
    int rank = 0;
    int position = 0;
  };

  std::string message;      // one line: what was found, what was expected
  int rank = -1;            // rank whose actions are at fault; -1: no single rank
  std::vector<Step> steps;  // the bad step, or the steps of a cycle; none if an action is missing
};

// Returns the order's first fault, or nothing if it is valid as validate() in order.h defines it.
std::optional<OrderFault> find_fault(const Order& order);

}  // namespace tandem
