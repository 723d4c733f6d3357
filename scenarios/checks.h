// Rules that concern several keys of a scenario. A broken rule is an Error of the keys that break
// it.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Checks that stragglers have a factor, and that each rank, node and stage among them exists.
Status check_stragglers(const Scenario& s);
// Checks that a dense model sets no keys of experts. With model.experts = 0 they are allowed, as
// they may be for other runs of the file.
Status check_expert_keys(const Scenario& s);
// Checks that exchanges by DeepEP, whose SMs carry the copies, are not said to take none.
Status check_exchange_sms(const Scenario& s);
// Checks that offload to the CPU finds known bandwidths: of the GPU's link to the CPU, and, for a
// part of the optimizer, of the host's memory.
Status check_offload(const Scenario& s);

}  // namespace tandem
