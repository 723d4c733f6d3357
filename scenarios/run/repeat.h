// Repeat: a run played with one seed after another.
#pragma once

#include "base/result.h"
#include "scenarios/run/run.h"

namespace tandem {

// The run whose iteration is the median, with the spread of all; `jobs` at once, each in a process
// of its own. REQUIRES: repeats > 1.
Result<RunResult> simulate_repeated(const Scenario& scenario, Engine engine,
                                    const OutputFiles& files, bool progress, int jobs);

// What each scenario's iteration takes, played once; each in a process of its own.
Result<std::vector<double>> iterations_s(const std::vector<Scenario>& scenarios, Engine engine,
                                         bool progress, int jobs);

}  // namespace tandem
