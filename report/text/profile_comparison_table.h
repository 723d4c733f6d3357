// Tables of a simulation compared with a profile, for a terminal.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/compare/profile_comparison.h"

namespace tandem {

// Returns tables of times and shares, communication, passes and measured ranks, then notes.
std::string profile_comparison_table(const ProfileComparison& comparison, int width = kAnyWidth);

}  // namespace tandem
