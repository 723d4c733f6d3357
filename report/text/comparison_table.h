// Tables of a comparison, for a terminal.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/compare/compare.h"

namespace tandem {

// Returns tables of the parts of the iteration, the kinds of op, the ranks and the worst ops, and a
// sentence that says where the difference lies.
std::string comparison_table(const Comparison& comparison, int width = kAnyWidth);

}  // namespace tandem
