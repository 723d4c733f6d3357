// Measure: a scenario's run for real, as its [validate] table says, and its simulation with the op
// times that came out.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/job_result.h"
#include "scenarios/run/real_run.h"
#include "scenarios/run/run_result.h"

namespace tandem {

struct MeasureOptions {
  int iterations = 5;
  double timeout_s = 60;
  std::string program;  // tandem itself, to start ranks with
};

struct Measured {
  RealRunResult real;
  // The same Program on the ideal engine, priced with the median iteration's own op times. What it
  // differs by from that iteration is wrong in the model of waiting; what the simulation differs by
  // beyond that is wrong in the prices.
  RunResult own;
};

// Host: in this process. Else ranks of their own play a file of the Program.
Result<Measured> measure(const Scenario& scenario, const CompiledJob& job,
                         const MeasureOptions& options);

}  // namespace tandem
