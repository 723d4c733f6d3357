// A table of what-ifs, measured and predicted.
#pragma once

#include <string>
#include <vector>

#include "validation/published/ratios.h"
#include "validation/published/what_if.h"

namespace tandem {

std::string what_if_table(const std::vector<WhatIf>& pairs, int width);

// Returns a line for each two machines on one job, and how far the predicted ratios are off.
std::string ratio_table(const std::vector<MachineRatio>& ratios, int width);

// Return the same as Markdown, without what is not compared.
std::string what_if_page(const std::vector<WhatIf>& pairs);
std::string ratio_page(const std::vector<MachineRatio>& ratios);

}  // namespace tandem
