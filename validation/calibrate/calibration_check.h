// CalibrationCheck: how much nearer a site's runs are predicted once its software is calibrated on
// one of them, by runs that others measured.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "validation/published/published_fit.h"

namespace tandem {

// The runs of all families whose names begin with `name`, and how well they are predicted. Errors
// are means of absolute errors, as shares.
struct CalibratedFamilies {
  std::string name;
  int runs = 0, calibrations = 0;
  double before = 0;  // error of a fit without these runs
  double after = 0;   // that fit calibrated on one other run of their family, GPU and software; the
                      // mean over up to 8 such runs in turn
  double fitted = 0;  // error of a fit to all runs
  double inside = 0;  // share of its calibrated predictions in the interval of other families'
};

struct CalibrationCheck {
  std::vector<CalibratedFamilies> families;
  double before = 0, after = 0;        // means of the families'
  std::pair<double, double> interval;  // measured over predicted, 90 % of all calibrated runs
  double inside = 0;                   // mean of the families' shares
};

// Takes families with at least two runs on one GPU by one software. `whole`: a fit to all rows.
// on_run is called after each calibration. Error: a prefix that no family has.
Result<CalibrationCheck> check_calibration(const FitData& data, const Values& whole,
                                           const std::vector<std::string>& prefixes,
                                           const std::function<void(int done, int of)>& on_run);

// Returns Markdown, as docs/explain.md has it.
std::string calibration_table(const CalibrationCheck& check);

}  // namespace tandem
