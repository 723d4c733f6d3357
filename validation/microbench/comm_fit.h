// CommFit: from tables of times to a calibration, latency + bytes x factor / bus bandwidth.
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
  double worst_error = 0;    // of a size's time, as a share of it
  std::vector<Bytes> sizes;  // that were measured
};

// A fit for each kind, number of ranks and number of nodes: the least squares of relative errors,
// with no latency below 0. Error: fewer than two sizes, or times that do not grow with them.
Result<std::vector<CommFit>> fit(const std::vector<CommTable>& tables);

// The file that read_calibration reads. `origin`: its first lines, a key and a TOML value each.
std::string calibration_text(const std::vector<CommFit>& fits,
                             const std::vector<std::pair<std::string, std::string>>& origin);

}  // namespace tandem
