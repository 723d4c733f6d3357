// Measure: runs a scenario for real, as its [validate] table says, and simulates it again with the
// op times that were measured.
#pragma once

#include <string>

#include "base/result.h"
#include "planning/real/real_run.h"
#include "results/job_result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

struct MeasureOptions {
  int iterations = 5;
  double timeout_s = 60;
  std::string program;  // path of tandem itself, to start ranks with
  std::string folder;   // where temporary files go; empty: the system's
};

struct Measured {
  RealRunResult real;
  // The same Program on the ideal engine, with the op times of the median iteration as prices. Its
  // difference from that iteration is an error of how waiting is modelled. The rest of the
  // simulation's difference is an error of the prices.
  RunResult own;
};

// Runs in this process on backend host. On other backends, ranks in processes of their own play a
// file of the Program.
Result<Measured> measure(const Scenario& scenario, const CompiledJob& job,
                         const MeasureOptions& options);

}  // namespace tandem
