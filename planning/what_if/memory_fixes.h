// MemoryFixes: changes that make a plan fit into memory.
#pragma once

#include <vector>

#include "base/result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Adds to each result whose plan does not fit what would make it fit: single changes of the plan,
// or two where no single one is enough. The model, the batch and the number of GPUs stay. Each
// change is one that the scenario's rules allow. Those that fit are played on the ideal engine,
// `jobs` at once, and the fastest of each kind are kept. Nothing is tried where schedule.order or
// parallel.layout is looked for: then the fixes are empty. REQUIRES: one result for each scenario.
void add_memory_fixes(const std::vector<Scenario>& scenarios, int jobs,
                      std::vector<Result<RunResult>>* results);

}  // namespace tandem
