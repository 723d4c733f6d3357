// The columns that all tables of cases (measured runs of others) share, for a terminal and for
// Markdown.
#pragma once

#include <string>
#include <vector>

#include "report/text/number_cells.h"
#include "report/text/text_table.h"
#include "validation/published/cases.h"

namespace tandem {

// Return the columns of a table with a row a run, and of one with a row a family of runs.
std::vector<Column<CaseRow>> case_columns();
std::vector<Column<Accuracy>> family_columns();

// Returns a row a family, and a last one over all runs.
std::vector<Accuracy> families_and_all(const std::vector<CaseRow>& rows);

// Returns a line for each row without a prediction: `before`, the run's id, and the reason.
std::string reasons(const std::vector<CaseRow>& rows, const char* before);

}  // namespace tandem
