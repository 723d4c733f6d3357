// MemoryFixes: changes that make a plan fit into memory.
#pragma once

#include <vector>

#include "base/result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Adds to each result whose plan does not fit the changes of the plan that would make it fit:
// single changes, or pairs if no single one is enough. The model, the batch and the number of GPUs
// stay, and the scenario's rules allow each change. Changes that fit are played on the ideal
// engine, `jobs` at once, and the fastest of each kind is kept. If schedule.order or
// parallel.layout is auto, nothing is tried and the fixes are empty. REQUIRES: one result for each
// scenario.
void add_memory_fixes(const std::vector<Scenario>& scenarios, int jobs,
                      std::vector<Result<RunResult>>* results);

}  // namespace tandem
