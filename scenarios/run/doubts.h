// Doubts: settings that can be played, but hardly mean what they say.
#pragma once

#include <string>
#include <vector>

#include "scenarios/config/scenario.h"

namespace tandem {

// A line each: stages that are uneven though nobody listed them, a key that this order does not
// read, sizes below what the cost model was made for. "file:line: what was found".
std::vector<std::string> doubts(const Scenario& scenario);

// Whether repetitions, which differ in their seed, can differ in anything.
bool varies_by_seed(const Scenario& scenario);

}  // namespace tandem
