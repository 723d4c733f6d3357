// FrameworkProfile's files with other values: what a fit writes back.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "validation/published/published_checks.h"
#include "validation/published/published_fit.h"

namespace tandem {

// A file of software with a constant's line in place of the one it has, or behind the others;
// comments and all else stay.
std::string with_value(std::string text, const std::string& key, double value,
                       const std::string& source);

// The same with where the rows behind the interval were measured, and how many.
std::string with_measured_on(std::string text, const Interval& interval, const std::string& origin);

// As files have a value: four digits that count.
double rounded(double value);

// Writes values and intervals to the files of software and GPUs; `origin` says what they were
// fitted to. A software with too few rows for an interval of its own gets the last one: that of
// all; one without any is not calibrated, and has that of GPUs that were left out, if it is not
// narrower.
Status write_fit(const FitPlan& plan, const PublishedFit& fit, const Checks& checks,
                 const std::string& origin);

}  // namespace tandem
