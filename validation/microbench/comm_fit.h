// CommFit: fits a calibration to tables of times: latency + bytes x factor / bus bandwidth.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/calibration.h"
#include "validation/microbench/comm_bench.h"

namespace tandem {

struct CommFit {
  CalibrationRow row;
  double worst_error = 0;    // largest relative error over the sizes
  std::vector<Bytes> sizes;  // sizes that were measured
};

// Fits each kind, number of ranks and number of nodes by itself: least squares of relative errors,
// with a latency of at least 0. Error: fewer than two sizes, or times that do not grow with them.
Result<std::vector<CommFit>> fit(const std::vector<CommTable>& tables);

// A measured time, and the one predicted without the fit.
struct JudgedTime {
  Bytes bytes = 0;
  double measured_s = 0, before_s = 0;  // before: by the cluster's numbers
};

// Relative errors of the fit, and without it (before), over the times of a range of sizes. The
// first range has all sizes.
inline constexpr const char* kAllSizes = "all";
struct SizeErrors {
  std::string sizes;
  std::size_t times = 0;
  double median = 0, worst = 0, before_median = 0, before_worst = 0;
};
std::vector<SizeErrors> errors_by_size(const CommFit& fit, std::span<const JudgedTime> times);

// Returns the text of a file for read_calibration(). `by`: the command that fitted. `origin`: its
// first lines, as keys with TOML values.
std::string calibration_text(const std::vector<CommFit>& fits, const std::string& by,
                             const std::vector<std::pair<std::string, std::string>>& origin);

}  // namespace tandem
