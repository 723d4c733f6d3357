// RoutingCost: what an iteration takes more because experts get unequal loads.
#pragma once

#include <optional>

#include "base/result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the cost against the same job with equal loads, both on the ideal engine without jitter.
// Nothing for a dense model, and for uniform costs.
Result<std::optional<RoutingCost>> routing_cost(const Scenario& scenario);

}  // namespace tandem
