// Limits: counts the runs of a scenario file before any of them is made.
#pragma once

#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "topology/cluster.h"

namespace tandem {

// Error: the product of the axes has more runs than limits.runs.
Status check_runs(const ScenarioFile& file,
                  const std::vector<std::pair<std::string, Setting>>& sets);

}  // namespace tandem
