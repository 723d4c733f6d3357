// CompareFiles: holds a simulation, given as a scenario or a file, against profiles of the real
// run.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "planning/play/play_job.h"
#include "scenarios/scenario.h"
#include "sim/engines.h"
#include "traces/profile/profile.h"
#include "validation/compare/profile_comparison.h"

namespace tandem {

// The kind of comparison: of two traces, or of measured profiles with a simulated side of the named
// kind.
enum class ComparedKind { TwoTraces, Scenario, Program, Trace, Profiles };
ComparedKind compared_kind(const std::string& simulated, const std::string& measured);

struct ProfiledFiles {
  std::string simulated;  // a scenario, a Program, a trace, or profiles of a simulated run
  std::string measured;   // profiles
  // REQUIRES: set where `simulated` is a scenario; its order and layout are chosen.
  const Scenario* scenario = nullptr;
  Engine engine = Engine::SimGrid;  // plays the scenario
  std::string passes;               // only these passes of the simulation: "6F3,1B1"; empty: all
};

struct ComparedProfiles {
  Profile simulated, measured;
  ProfileComparison comparison;     // its first note says so if the two are different jobs
  std::optional<PlayedJob> played;  // set if the simulated side is a scenario
};

// Compares the simulated side with `measured`, the profile read from the measured files. A scenario
// is played in this process.
Result<ComparedProfiles> compare_files(const ProfiledFiles& files, Profile measured);

}  // namespace tandem
