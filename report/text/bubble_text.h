// The text of `tandem schedule --explain`: where an order's bubble comes from.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "schedule/order/bubble.h"
#include "schedule/order/lower_bound.h"
#include "schedule/order/order.h"

namespace tandem {

// `seconds_a_unit`: how long a unit of the times is; 0: units of --costs, whose length is not
// known.
std::string bubble_text(const Order& order, const Bubble& bubble, const LowerBound& bound,
                        double seconds_a_unit, int width = kAnyWidth);

}  // namespace tandem
