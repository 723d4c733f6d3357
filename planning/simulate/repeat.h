// Repeat: plays a run with several seeds, each in a process of its own.
#pragma once

#include "base/result.h"
#include "planning/simulate/simulate.h"

namespace tandem {

// Plays all repetitions, `jobs` at once. Returns the one with the median iteration, and the spread
// of all. REQUIRES: repeats > 1.
Result<RunResult> simulate_repeated(const Scenario& scenario, Engine engine,
                                    const OutputFiles& files, bool progress, int jobs);

// Plays each scenario once, in a process of its own, and returns its iteration's seconds.
Result<std::vector<double>> iterations_s(const std::vector<Scenario>& scenarios, Engine engine,
                                         bool progress, int jobs);

}  // namespace tandem
