// Auto layout: finds how many layers each stage gets if parallel.layout is "auto".
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the scenario with a layout in place of "auto": the split of the layers with the shortest
// iteration among those that fit into every GPU's memory, or among all if none fits. Splits are
// compared by a replay of whole passes; the best ones and Megatron-LM's even one are then played in
// full on the ideal engine. Error: the order cannot be made.
Result<Scenario> with_layout(const Scenario& scenario);

}  // namespace tandem
