// JobWarnings: what a user should know about a compiled job before believing its numbers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "job/compile.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns one line for each warning, with the scenario's name. Returns an Error if the cluster with
// all links, to which the one without failed links is compared, cannot be built.
Result<std::vector<std::string>> job_warnings(const Scenario& scenario, const CompiledJob& job);

}  // namespace tandem
