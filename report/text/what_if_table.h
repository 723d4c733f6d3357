// A table of what-ifs, measured and predicted.
#pragma once

#include <string>
#include <vector>

#include "validation/published/what_if.h"

namespace tandem {

std::string what_if_table(const std::vector<WhatIf>& pairs, int width);

}  // namespace tandem
