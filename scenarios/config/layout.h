// parallel.layout: which layers each stage has, in Megatron-LM's letters.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// A layout's numbers of layers become the plan's; its stages say parallel.vpp where nobody else
// does. "auto" stays to be found (scenarios/run/auto_layout.h).
Status complete_layout(Scenario* scenario);

}  // namespace tandem
