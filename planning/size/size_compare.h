// Comparing candidates: against deadline and budget, and against each other.
#pragma once

#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Fills each one's economics, why it is out, whether it is on the frontier or recommended.
// REQUIRES: one of `sized` a case, with the result of its plan.
void compare(const std::vector<SizeCase>& cases, std::vector<Sized>* sized);

// Each input by itself, and the choice made anew.
std::vector<InputChange> input_changes(const std::vector<SizeCase>& cases,
                                       const std::vector<Sized>& sized);

// Candidates with the same GPU and as many of them a node differ in their network.
std::vector<TierWorth> tiers(const std::vector<SizeCase>& cases, const std::vector<Sized>& sized);

}  // namespace tandem
