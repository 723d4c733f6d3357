// The columns that all tables of cases share, for a terminal and for Markdown.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/published/cases.h"

namespace tandem {

// Of a share, in percent; signed: with its sign, and never "-0.0".
std::string percent(double share);
std::string signed_percent(double share);

std::vector<Column<CaseRow>> case_columns();
std::vector<Column<Accuracy>> family_columns();

// A row a family, and one of all.
std::vector<Accuracy> families_and_all(const std::vector<CaseRow>& rows);

// A line a row without a prediction, with `before` before it: its id, and why.
std::string reasons(const std::vector<CaseRow>& rows, const char* before);

}  // namespace tandem
