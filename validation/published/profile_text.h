// ProfileText: writes the results of a fit into the files of framework profiles and GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "validation/published/published_checks.h"
#include "validation/published/published_fit.h"

namespace tandem {

// Returns the file's text with the constant's line replaced, or added at the end. Comments and all
// else stay.
std::string with_value(std::string text, const std::string& key, double value,
                       const std::string& source);

// Returns the text with where the rows behind the interval were measured, and how many.
std::string with_measured_on(std::string text, const Interval& interval, const std::string& origin);

// Returns the value as files have it: with four significant digits.
double rounded(double value);

// Writes values and intervals to the files of framework profiles and GPUs. `origin` says what they
// were fitted to. A profile with too few rows gets the last interval, that of all rows. A profile
// without rows is not calibrated: its interval is that of left-out GPUs, unless that is narrower
// than the one of all rows.
Status write_fit(const FitPlan& plan, const PublishedFit& fit, const Checks& checks,
                 const std::string& origin);

}  // namespace tandem
