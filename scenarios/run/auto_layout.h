// Auto layout: how many layers each stage takes where parallel.layout is "auto".
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// The scenario with a layout in the place of "auto": of the splits of its layers that fit into each
// GPU's memory (if none does, of all) the one with the shortest iteration. Splits are played stage
// by stage, the best and Megatron-LM's even one in full, on the ideal engine. An Error where the
// order cannot be made.
Result<Scenario> with_layout(const Scenario& scenario);

}  // namespace tandem
