// Doubts: warns of settings that can be played but are probably not what the user meant.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace tandem {

// Returns one line for each doubt, "file:line: what was found": stages that are uneven though no
// key lists them, a key that this order does not read, sizes below those that the cost model was
// made for.
std::vector<std::string> doubts(const Scenario& scenario);

// Returns whether the seed has any effect on runs of the scenario.
bool varies_by_seed(const Scenario& scenario);

}  // namespace tandem
