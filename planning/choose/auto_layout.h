// Auto layout: finds how many layers each stage takes where parallel.layout is "auto".
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the scenario with a layout in place of "auto". It is the split of the layers with the
// shortest iteration among those that fit into every GPU's memory, or among all if none fits.
// Splits are compared by playing them stage by stage; the best one and Megatron-LM's even one are
// then played in full, on the ideal engine. Error: the order cannot be made.
Result<Scenario> with_layout(const Scenario& scenario);

}  // namespace tandem
