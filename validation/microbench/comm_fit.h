// CommFit: fits a calibration to tables of times: latency + bytes x factor / bus bandwidth.
#pragma once

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

// Returns the text of a file for read_calibration(). `origin`: its first lines, as keys with TOML
// values.
std::string calibration_text(const std::vector<CommFit>& fits,
                             const std::vector<std::pair<std::string, std::string>>& origin);

}  // namespace tandem
