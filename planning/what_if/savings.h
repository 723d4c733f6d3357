// Savings: compares each run with its baseline.
#pragma once

#include <vector>

#include "base/result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Sets the Saving of each result whose scenario names a baseline. The baseline of a run is the run
// with the same points on the file's axes, except that one of them is report.baseline. If that run
// was not simulated, or failed, no Saving is set. REQUIRES: one result for each scenario.
void add_savings(const std::vector<Scenario>& scenarios, std::vector<Result<RunResult>>* results);

}  // namespace tandem
