// The columns that all tables of cases share, for a terminal and for Markdown.
#pragma once

#include <string>
#include <vector>

#include "report/text/number_cells.h"
#include "report/text/text_table.h"
#include "validation/published/cases.h"

namespace tandem {

std::vector<Column<CaseRow>> case_columns();
std::vector<Column<Accuracy>> family_columns();

// Returns a row a family, and one of all.
std::vector<Accuracy> families_and_all(const std::vector<CaseRow>& rows);

// Returns a line for each row without a prediction: `before`, its id, and why.
std::string reasons(const std::vector<CaseRow>& rows, const char* before);

}  // namespace tandem
