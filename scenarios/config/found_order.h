// FoundOrder: what stands in the place of schedule.order = "auto".
#pragma once

#include <string>
#include <string_view>

#include "schedule/order/order.h"

namespace tandem {

// The name of an order that is to be found.
inline constexpr std::string_view kAutoOrder = "auto";

// How good the found order is. Seconds are of iterations on the ideal engine.
struct OrderFinding {
  std::string name;     // a named order's; empty: made for the stages
  bool in_a_v = false;  // its stages
  double iteration_s = 0;
  std::string named;  // the best of the named orders that fit
  int named_vpp = 0;
  double named_s = 0;

  // The share of the named order's iteration that is saved.
  double gain() const { return 1 - iteration_s / named_s; }
};

struct FoundOrder {
  Order order;
  OrderFinding finding;
};

}  // namespace tandem
