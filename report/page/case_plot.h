// A plot of predicted against measured, a mark a run, as an SVG picture for a page.
#pragma once

#include <string>
#include <vector>

#include "validation/published/cases.h"

namespace tandem {

// Returns the picture. Both axes are logarithmic and alike. It shows the diagonal, 10 % on either
// side of it, and a colour and a shape a family. The same rows give the same bytes. Rows without a
// prediction have no mark.
std::string case_plot(const std::vector<CaseRow>& rows);

}  // namespace tandem
