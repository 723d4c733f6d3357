// The text of `tandem schedule --explain`: where an order's bubble comes from.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "schedule/order/bubble.h"
#include "schedule/order/lower_bound.h"
#include "schedule/order/order.h"

namespace tandem {

// Returns the bubble's size, a table of its parts, and how far at most the order is above its lower
// bound. `seconds_a_unit`: the length of a unit of the table. 0: all times are in the units of
// --costs, whose length is not known.
std::string bubble_text(const Order& order, const Bubble& bubble, const LowerBound& bound,
                        double seconds_a_unit, int width = kAnyWidth);

}  // namespace tandem
