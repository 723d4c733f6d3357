// Rules that concern several keys of a scenario. A broken rule is an Error of the keys that break
// it.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Stragglers need a factor, and each rank, node and stage among them exists.
Status check_stragglers(const Scenario& s);
// A dense model sets no keys of experts, except beside model.experts = 0: then they are for other
// runs of the file.
Status check_expert_keys(const Scenario& s);
// Offloading a part of the optimizer to the CPU needs a GPU whose link to the CPU and whose host
// memory have known bandwidths.
Status check_offload(const Scenario& s);

}  // namespace tandem
