// Measured costs: what the stages of a run took, to make an order for that machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/order/named_orders.h"

namespace tandem {

// In seconds, of a trace that `tandem run --trace` wrote: of each stage the median of its passes,
// each from its first op's start to its last one's end, and of its sends. Where whole backwards
// were measured they are shared out as `priced` says; a stage without sends keeps its transfer.
// Error(BadInput): the trace is not of as many stages.
Result<std::vector<OrderCosts>> measured_costs(const std::string& trace,
                                               std::vector<OrderCosts> priced);

}  // namespace tandem
