// ExplainFiles: explains what profiles and a log say of a scenario's run.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "sim/engines.h"
#include "traces/profile/profile.h"
#include "validation/compare/compare_files.h"
#include "validation/explain/explain.h"
#include "validation/explain/explain_log.h"

namespace tandem {

// A run's files: at most one log. Error: a second log.
struct MeasuredFiles {
  std::string log;
  std::vector<std::string> profiles;
};
Result<MeasuredFiles> measured_files(const std::vector<std::string>& files);

// Simulates the scenario in a process of its own, as this one may use SimGrid once.
Result<SimulatedIteration> simulated_iteration(const Scenario& scenario, Engine engine);

// Reads profiles of a scenario's run, plays the scenario and compares. `passes`: the only passes
// that the profiles have, such as "6F3,1B1"; empty: whole steps. Errors: a profile of another job
// (names the differences), and those of the readers.
Result<ComparedProfiles> matched_profiles(const std::vector<std::string>& files,
                                          const Scenario& scenario, Engine engine,
                                          const std::string& passes = "");

// `simulated`, `measured` and `comparison` are of profiles; without any they are empty.
struct ExplainedFiles {
  Explanation explanation;
  Profile simulated, measured;
  ProfileComparison comparison;
};

// Simulates the scenario and explains the files: profiles, a log, or both. With both, the profiles
// give the causes, and those of the log are added as notes. `passes`: as for matched_profiles.
// Errors: a profile of another job, a second log, a log of passes, and those of explain(),
// explain_passes(), explain_log() and the readers. REQUIRES: the scenario's order and layout are
// chosen.
Result<ExplainedFiles> explain_files(const Scenario& scenario,
                                     const std::vector<std::string>& files, Engine engine,
                                     const std::string& passes = "");

}  // namespace tandem
