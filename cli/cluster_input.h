// Loads the cluster that a command is asked about.
#pragma once

#include <string>

#include "base/result.h"
#include "job/site.h"

namespace tandem {

// Takes a preset, or a scenario whose first run has a cluster; a file may have [cluster] alone.
// Both a preset and such a file give two nodes, where the file says no number of GPUs.
Result<Scenario> load_cluster(const std::string& input);

}  // namespace tandem
