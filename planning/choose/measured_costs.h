// Measured costs: reads from a trace how long the stages of a real run took, so that an order can
// be made for that machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/order/named_orders.h"

namespace tandem {

// Returns the costs of each stage, in seconds, from a trace that `tandem run --trace` wrote.
// Forward, input and weight costs are medians over the stage's passes; a pass lasts from the start
// of its first op to the end of its last. Backwards that are not split are divided between input
// and weight gradient in the proportion of `priced`. The transfer cost is the median of the stage's
// sends; without sends it is the priced one. Stages of a second chain (DualPipe) are those of the
// first. Error(BadInput): the trace is not complete, or has another number of stages.
Result<std::vector<OrderCosts>> measured_costs(const std::string& trace,
                                               std::vector<OrderCosts> priced);

}  // namespace tandem
