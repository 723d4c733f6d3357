// Resolve: finds the layout and the order that a scenario leaves open.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// Whether parallel.layout is "auto", or schedule.order is and no order was found yet.
bool is_open(const Scenario& scenario);

// Returns the scenario with a layout and an order found.
Result<Scenario> resolved(const Scenario& scenario);

}  // namespace tandem
