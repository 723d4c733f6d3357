// ProfileComparison: compares a simulation with a profile of the real run. Both are measured in the
// same way, as profiles (traces/profile/profile_metrics.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {

// One compared figure: the mean over ranks, of a step. A side is empty where it does not have the
// figure or cannot tell it.
struct ComparedValue {
  std::string name;       // "compute", "exposed pipeline communication"
  bool is_share = false;  // else seconds
  std::optional<double> simulated, measured;
};

// A kind of communication on both sides.
struct ComparedComm {
  CommLabel label;
  std::optional<CommTotal> simulated, measured;  // of a rank and step: times and counts are means
};

// The compute of a pass. If one side does not tell stages apart, or weight gradients, they are
// added up on both sides.
struct ComparedPhase {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1;
  std::optional<double> simulated_s, measured_s;            // mean of a rank and step
  std::optional<double> simulated_pass_s, measured_pass_s;  // median over microbatches
};

struct ComparedSide {
  std::string path, by;  // "profiles/", "simgrid"
  int world = 0;         // ranks of the whole job; 0: not known
  ProfileWindow window;
  std::vector<ProfileSplit> splits;      // communication without waiting for a peer, if known
  std::vector<ProfileSplit> hta_splits;  // with it, as Holistic Trace Analysis counts
};

struct ProfileComparison {
  ComparedSide simulated, measured;
  std::vector<ComparedValue> values;
  std::vector<ComparedComm> comms;
  std::vector<ComparedPhase> phases;
  std::vector<std::string> notes;
  std::string another_job;  // why the two cannot be the same job; empty: they can
};

// No prediction of the same job is wrong by more than this factor in its compute.
inline constexpr double kMostComputeRatio = 4;

// Compares two sides. `whole`: the simulated side is a whole step; single passes may belong to any
// job.
ProfileComparison compare_profiles(ComparedSide simulated, ComparedSide measured, bool whole);

// Returns one side with its splits. Error(BadInput): as splits_of().
Result<ComparedSide> side_of(const Profile& profile, const std::string& path,
                             const std::string& by);

nlohmann::ordered_json to_json(const ProfileComparison& comparison);

}  // namespace tandem
