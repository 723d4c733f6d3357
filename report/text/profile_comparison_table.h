// Tables of a simulation held against a profile, for a terminal.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/compare/profile_comparison.h"

namespace tandem {

std::string profile_comparison_table(const ProfileComparison& comparison, int width = kAnyWidth);

}  // namespace tandem
