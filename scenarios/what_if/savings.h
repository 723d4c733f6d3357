// Savings: what each run saves against its baseline.
#pragma once

#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run_result.h"

namespace tandem {

// Gives the results of scenarios that name a baseline their Saving. A run's baseline is the one
// whose points are the run's, but for one that is Scenario::baseline; where that was not simulated,
// or failed, nothing is saved. REQUIRES: a result a scenario.
void add_savings(const std::vector<Scenario>& scenarios, std::vector<Result<RunResult>>* results);

}  // namespace tandem
