// The cells that all tables of cases share, for a terminal and for Markdown.
#pragma once

#include <string>
#include <vector>

#include "validation/cases.h"

namespace tandem {

using Cells = std::vector<std::string>;

// Of a share, in percent; signed: with its sign, and never "-0.0".
std::string percent(double share);
std::string signed_percent(double share);

Cells case_titles();
Cells case_cells(const CaseRow& row);

Cells family_titles();
Cells family_cells(const Accuracy& of, const std::string& name);

// A line a row without a prediction, with `before` before it: its id, and why.
std::string reasons(const std::vector<CaseRow>& rows, const char* before);

}  // namespace tandem
