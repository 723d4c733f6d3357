// A plot of predicted against measured iteration times, a mark a run, as an SVG picture.
#pragma once

#include <string>
#include <vector>

#include "validation/published/cases.h"

namespace tandem {

// Returns the picture. Both axes are logarithmic and have the same range. Each family of runs has a
// colour and a shape; a band shows where predictions are off by at most 10 %. The same rows give
// the same bytes. Rows without a prediction have no mark.
std::string case_plot(const std::vector<CaseRow>& rows);

}  // namespace tandem
