// A simulation held against a profile of the real run: both measured alike, as profiles
// (traces/profile/profile_metrics.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {

// What is compared: a step's, in the mean over ranks. Nothing where a side does not have or tell
// it.
struct ComparedValue {
  std::string name;       // "compute", "exposed pipeline communication"
  bool is_share = false;  // else seconds
  std::optional<double> simulated, measured;
};

// A kind of communication on both sides.
struct ComparedComm {
  CommLabel label;
  std::optional<CommTotal> simulated, measured;  // a rank's, a step's: times and counts are means
};

// The compute of a pass. Where one side does not tell stages, or the weight's gradient apart, both
// are added up.
struct ComparedPhase {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1;
  std::optional<double> simulated_s, measured_s;            // a rank and step, in the mean
  std::optional<double> simulated_pass_s, measured_pass_s;  // the median of a microbatch's
};

struct ComparedSide {
  std::string path, by;  // "profiles/", "simgrid"
  int world = 0;         // ranks of the whole job; 0: not known
  ProfileWindow window;
  std::vector<ProfileSplit> splits;      // communication without waiting, where it is known
  std::vector<ProfileSplit> hta_splits;  // with it, as Holistic Trace Analysis counts
};

struct ProfileComparison {
  ComparedSide simulated, measured;
  std::vector<ComparedValue> values;
  std::vector<ComparedComm> comms;
  std::vector<ComparedPhase> phases;
  std::vector<std::string> notes;
  std::string another_job;  // why the two cannot be one job; empty: they can
};

// `whole`: the simulated side is a whole step, not some of its passes, which any job may have.
ProfileComparison compare_profiles(ComparedSide simulated, ComparedSide measured, bool whole);

// The splits of a side. Error(BadInput) as splits_of.
Result<ComparedSide> side_of(const Profile& profile, const std::string& path,
                             const std::string& by);

nlohmann::ordered_json to_json(const ProfileComparison& comparison);

}  // namespace tandem
