// Tables of a validation suite: for a terminal, as CSV, and as a page.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/compare/suite.h"

namespace tandem {

// Returns a row a run, and below them what differs by more than it may.
std::string suite_table(const std::vector<SuiteRow>& rows, int width = kAnyWidth);

// Returns the same numbers with all digits, times in seconds.
std::string suite_csv(const std::vector<SuiteRow>& rows);

// Returns the same table as Markdown.
std::string suite_page(const std::vector<SuiteRow>& rows, const std::string& title,
                       const std::string& note);

}  // namespace tandem
