// Layout: reads parallel.layout, each stage's layers in Megatron-LM's letters.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Sets the layers of each stage from the layout; and parallel.vpp from its number of stages, unless
// the key is set. For "auto" it sets any valid split; planning/choose/auto_layout.h finds the best.
Status complete_layout(Scenario* scenario);

}  // namespace tandem
