// Tables of a comparison, for a terminal.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/compare/compare.h"

namespace tandem {

// What the iteration splits into, the kinds of op, the ranks, the worst ops, and a sentence that
// says where the difference lies.
std::string comparison_table(const Comparison& comparison, int width = kAnyWidth);

}  // namespace tandem
