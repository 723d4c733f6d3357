// Sensitivity: shows how much the iteration depends on each part of a run, by making that part 10 %
// slower.
#pragma once

#include "base/result.h"
#include "planning/simulate/simulate.h"

namespace tandem {

// Plays the scenario once for each stage (compute takes 1.1 times as long), for each kind of
// communication that the run has (1.1 times the bytes), and for each level of links (1/1.1 of the
// bandwidth). Plays `jobs` at once, each in a process of its own. `result`: that of the run itself.
Result<std::vector<Sensitivity>> sensitivity(const Scenario& scenario, Engine engine,
                                             const RunResult& result, bool progress, int jobs);

}  // namespace tandem
