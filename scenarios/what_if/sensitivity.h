// Sensitivity: what hangs on each part of a run: its iteration with that part 10 % slower.
#pragma once

#include "base/result.h"
#include "scenarios/run/run.h"

namespace tandem {

// For each stage, each kind of communication that the run has, and each level of links: compute
// that takes 1.1 times as long, 1.1 times the bytes, 1/1.1 of the bandwidth. `jobs` at once, each
// in a process of its own. `result`: the run's.
Result<std::vector<Sensitivity>> sensitivity(const Scenario& scenario, Engine engine,
                                             const RunResult& result, bool progress, int jobs);

}  // namespace tandem
