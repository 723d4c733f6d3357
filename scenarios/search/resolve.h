// Resolve: finds what a scenario leaves open, its layout and its order.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// Whether parallel.layout or schedule.order is still "auto".
bool is_open(const Scenario& scenario);

// The scenario with a layout and an order in their places.
Result<Scenario> resolved(const Scenario& scenario);

}  // namespace tandem
