// Calibration: measured times of operations alone, which replace those computed from links.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/comm_kind.h"

namespace tandem {

// The time of one kind of operation in groups of `ranks` ranks on `nodes` nodes: latency + bytes x
// bus_factor / bus bandwidth.
struct CalibrationRow {
  CommKind kind = CommKind::AllReduce;
  int ranks = 0;
  int nodes = 0;
  double latency_s = 0;
  double bus_bytes_per_s = 0;
  std::string cluster;  // on which it was measured; "": the file does not say

  double seconds_per_byte() const { return bus_factor(kind, ranks) / bus_bytes_per_s; }
};

// Returns the row for such groups, or nullptr.
const CalibrationRow* find_row(std::span<const CalibrationRow> rows, CommKind kind, int ranks,
                               int nodes);

// Reads a file that `tandem bench comm --fit` or `calibrate comm` wrote. The Errors name file and
// line.
Result<std::vector<CalibrationRow>> read_calibration(const std::string& path);

}  // namespace tandem
