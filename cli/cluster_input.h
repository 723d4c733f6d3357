// Loads the cluster that a command line names.
#pragma once

#include <string>

#include "base/result.h"
#include "job/site.h"

namespace tandem {

// Loads a preset, or the first run of a scenario file, which may have [cluster] alone. A preset,
// and a file with [cluster] alone that names no number of GPUs, give two nodes.
Result<Scenario> load_cluster(const std::string& input);

}  // namespace tandem
