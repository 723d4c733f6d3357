// Predicted against measured, a mark a run, as an SVG picture for a page.
#pragma once

#include <string>
#include <vector>

#include "validation/published/cases.h"

namespace tandem {

// Both axes logarithmic and alike, the diagonal and 10 % on either side of it, a colour and a shape
// a family. The same rows give the same bytes. Rows without a prediction have no mark.
std::string case_plot(const std::vector<CaseRow>& rows);

}  // namespace tandem
