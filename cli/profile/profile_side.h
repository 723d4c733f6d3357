// One side, simulated or measured, of a page that compares a simulation with a profile.
#pragma once

#include <string>

#include "traces/profile/profile.h"
#include "validation/compare/profile_comparison.h"

namespace tandem {

// Returns a side's detail for a page (results/run_detail.h): its split and its timeline.
std::string detail_of_side(const ComparedSide& side, const Profile& profile);

}  // namespace tandem
