// SizeCompare: compares candidates with deadline and budget, and with each other.
#pragma once

#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Sets each one's economics, the reason why it is ruled out, and whether it is on the frontier or
// recommended. REQUIRES: `sized` has one entry for each case, with the result of its plan.
void set_economics(const std::vector<SizeCase>& cases, std::vector<SizedCandidate>* sized);

// Changes each input by itself and makes the choice again.
std::vector<InputChange> input_changes(const std::vector<SizeCase>& cases,
                                       const std::vector<SizedCandidate>& sized);

// Compares candidates with the same GPU and as many of them on a node: they differ in their
// network.
std::vector<NetworkComparison> network_comparisons(const std::vector<SizeCase>& cases,
                                                   const std::vector<SizedCandidate>& sized);

}  // namespace tandem
