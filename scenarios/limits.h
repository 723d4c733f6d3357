// Limits: refuses a scenario file of too many runs before any of them is made.
#pragma once

#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Checks that the product of the axes has at most limits.runs runs.
Status check_runs(const ScenarioFile& file,
                  const std::vector<std::pair<std::string, Setting>>& sets);

}  // namespace tandem
