// Resolve: finds the layout and the order that a scenario leaves open.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the scenario with the layout and the order that were found; the scenario itself if it
// leaves nothing open.
Result<Scenario> resolved(const Scenario& scenario);

}  // namespace tandem
