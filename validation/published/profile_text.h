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

// Returns the text with the kinds of the software's measured rows, and how many of each.
std::string with_measured_on(std::string text, const MeasuredOn& measured,
                             const std::string& origin);

// Returns the value as files have it: with four significant digits.
double rounded(double value);

// Writes values and intervals to the files of framework profiles and GPUs. `origin` names the
// runs of the fit. A framework profile gets the interval of interval_for(); the intervals of
// checks.unmeasured go to workload/uncalibrated.toml.
Status write_fit(const FitPlan& plan, const PublishedFit& fit, const Checks& checks,
                 const std::string& origin);

}  // namespace tandem
