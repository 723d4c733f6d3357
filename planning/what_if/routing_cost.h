// RoutingCost: the time that an iteration takes longer because experts get unequal loads.
#pragma once

#include <optional>

#include "base/result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Compares the job with the same job with equal loads, both on the ideal engine without jitter.
// Returns nothing for a dense model, or for uniform costs.
Result<std::optional<RoutingCost>> routing_cost(const Scenario& scenario);

}  // namespace tandem
