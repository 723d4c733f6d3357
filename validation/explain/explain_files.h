// ExplainFiles: explains what profiles and a log say of a scenario's run.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "sim/engines.h"
#include "traces/profile/profile.h"
#include "validation/compare/profile_comparison.h"
#include "validation/explain/explain.h"

namespace tandem {

// `simulated`, `measured` and `comparison` are of profiles; without any they are empty.
struct ExplainedFiles {
  Explanation explanation;
  Profile simulated, measured;
  ProfileComparison comparison;
};

// Simulates the scenario, which leaves nothing open, and explains the files: profiles, a log, or
// both; beside profiles a log's causes are notes. Errors: a profile of another job, a second log,
// and those of explain(), explain_log() and the readers.
Result<ExplainedFiles> explain_files(const Scenario& scenario,
                                     const std::vector<std::string>& files, Engine engine);

}  // namespace tandem
