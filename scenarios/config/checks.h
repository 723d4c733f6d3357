// Rules of a scenario as a whole, each an Error of the keys that break it.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// Stragglers are there.
Status check_stragglers(const Scenario& s);
// Keys of experts without their number; where that is said to be 0, they may wait for another run.
Status check_expert_keys(const Scenario& s);
// A GPU whose optimizer is partly on the CPU has a link to it that is known.
Status check_offload(const Scenario& s);

}  // namespace tandem
