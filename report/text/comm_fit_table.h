// Tables of a calibration that was fitted to measured tables of communication.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/microbench/comm_fit.h"

namespace tandem {

struct JudgedFit {
  CommFit fit;
  std::vector<JudgedTime> times;
};

// Returns "all_reduce of 8 ranks on 1 node".
std::string group_text(const CalibrationRow& row);

// Returns a row a fit, and rows by size: errors beside those of `cluster`, as it is without the
// fit.
std::string comm_fit_table(const std::vector<JudgedFit>& fits, const std::string& cluster,
                           int width = kAnyWidth);

// Returns lines on what the times of the fits do not determine.
std::vector<std::string> undetermined(const std::vector<JudgedFit>& fits,
                                      const std::string& cluster);

}  // namespace tandem
