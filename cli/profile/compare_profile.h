// tandem compare where the measured side is a profile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// The options of tandem compare.
struct CompareOptions {
  std::string simulated;  // a scenario, a Program, a trace, or profiles of a simulated run
  std::string measured;   // a trace or profiles
  std::string engine;     // empty: simgrid for a scenario
  std::vector<std::string> sets;
  std::string only;
  std::string passes;  // only these passes of the simulation: "6F3,1B1"; empty: all
  std::string report;
  bool json = false;
  bool wide = false;
  std::string perfetto;    // of two traces
  std::size_t worst = 10;  // of two traces: the ops that differ most
};

// Compares, writes the page and prints the table.
Status compare_profile(const CompareOptions& options);

}  // namespace tandem
