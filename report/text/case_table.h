// Tables of cases: what others measured beside what is predicted, by row and by family.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/published/cases.h"

namespace tandem {

// For a terminal: a row a run, a row a family, and the runs that have no prediction, with why.
std::string case_table(const std::vector<CaseRow>& rows, int width = kAnyWidth);

// The rows, all digits.
std::string case_csv(const std::vector<CaseRow>& rows);

}  // namespace tandem
