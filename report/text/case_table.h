// Tables of cases: measured runs of others beside their predictions, by row and by family.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/published/cases.h"

namespace tandem {

// Returns, for a terminal, a row a run, a row a family, and the runs without a prediction, with
// why.
std::string case_table(const std::vector<CaseRow>& rows, int width = kAnyWidth);

// Returns the rows with all digits.
std::string case_csv(const std::vector<CaseRow>& rows);

}  // namespace tandem
