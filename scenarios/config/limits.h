// Limits: how much a scenario asks for, counted before any of it is made.
#pragma once

#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "topology/cluster.h"

namespace tandem {

// An Error where the axes' product has more than limits.runs.
Status check_runs(const ScenarioFile& file,
                  const std::vector<std::pair<std::string, Setting>>& sets);

}  // namespace tandem
