// Parts that the commands on profiles share: a scenario's run, and one side, simulated or measured,
// of a page that compares a simulation with a profile.
#pragma once

#include <string>
#include <vector>

#include "planning/simulate/simulate.h"
#include "traces/profile/profile.h"
#include "validation/compare/profile_comparison.h"

namespace tandem {

// Returns the scenario's only run whose name holds `only`, with its order and layout found.
Result<Scenario> load_resolved(const std::string& path, const std::vector<std::string>& sets,
                               const std::string& only);

// Returns a side's detail for a page (results/run_detail.h): its split and its timeline.
std::string detail_of_side(const ComparedSide& side, const Profile& profile);

}  // namespace tandem
