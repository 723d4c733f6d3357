// FoundOrder: the order that was found for schedule.order = "auto", and how good it is.
#pragma once

#include <string>
#include <string_view>

#include "schedule/order/order.h"

namespace tandem {

// The value of schedule.order that asks for a search.
inline constexpr std::string_view kAutoOrder = "auto";

// How good the found order is. Seconds are iterations on the ideal engine.
struct OrderFinding {
  std::string name;     // of a named order; empty: the order was made for these stages
  bool in_a_v = false;  // its stages lie in a V over the ranks
  double iteration_s = 0;
  std::string named;  // the best named order that fits
  int named_vpp = 0;
  double named_s = 0;

  // Returns the share of the named order's iteration that the found one saves.
  double gain() const { return 1 - iteration_s / named_s; }
};

struct FoundOrder {
  Order order;
  OrderFinding finding;
};

}  // namespace tandem
