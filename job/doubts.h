// Doubts: warns of settings that can be played but are probably not what the user meant.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace tandem {

// Returns one line for each doubt, "file:line: ...": about uneven stages that no key asks for, keys
// without effect, sizes too small for the cost model, and the like.
std::vector<std::string> doubts(const Scenario& scenario);

// Returns those that no other plan answers: about the model, its kernels and the cluster.
std::vector<std::string> doubts_of_any_plan(const Scenario& scenario);

// Returns whether the seed has any effect on runs of the scenario.
bool varies_by_seed(const Scenario& scenario);

}  // namespace tandem
