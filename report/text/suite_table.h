// Tables of a validation suite, whose runs are simulated and measured: for a terminal, as CSV, and
// as Markdown.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/compare/suite.h"

namespace tandem {

// Returns a row a run, and below them the differences that exceed their bounds.
std::string suite_table(const std::vector<SuiteRow>& rows, int width = kAnyWidth);

// Returns the same numbers with all digits, times in seconds.
std::string suite_csv(const std::vector<SuiteRow>& rows);

// Returns the same table as Markdown, with a title and a note above it.
std::string suite_page(const std::vector<SuiteRow>& rows, const std::string& title,
                       const std::string& note);

}  // namespace tandem
