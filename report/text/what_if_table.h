// Tables of pairs of published runs: how much a change of settings (a what-if) or another machine
// gains, measured and predicted.
#pragma once

#include <string>
#include <vector>

#include "validation/published/ratios.h"
#include "validation/published/what_if.h"

namespace tandem {

// Returns a line for each pair of runs that differ in one setting, and how many changes are
// predicted well.
std::string what_if_table(const std::vector<WhatIf>& pairs, int width);

// Returns a line for each pair of machines on one job, and the errors of the predicted ratios.
std::string ratio_table(const std::vector<MachineRatio>& ratios, int width);

// Return the same as Markdown, without the pairs that are not predicted.
std::string what_if_page(const std::vector<WhatIf>& pairs);
std::string ratio_page(const std::vector<MachineRatio>& ratios);

}  // namespace tandem
