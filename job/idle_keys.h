// IdleKeys: finds keys that the run sets and that change nothing.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace tandem {

// Returns one line for each: "file:line: train.cuda_graph_scope has no effect without
// train.cuda_graphs = true". [model]'s keys for layers have none where each kind has its own.
std::vector<std::string> idle_keys(const Scenario& scenario);

}  // namespace tandem
