// Layout: reads parallel.layout, which says in Megatron-LM's letters what each stage holds.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Sets the layers of each stage from the layout, and parallel.vpp from its number of stages unless
// that is set. For "auto" it sets a valid split, and planning/choose/auto_layout.h finds the best
// one.
Status complete_layout(Scenario* scenario);

}  // namespace tandem
