// Tables of a profile: where its time goes.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/text/text_table.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {

// A profile's ranks and their splits, as split_of gives them.
struct ProfileReport {
  const Profile* profile = nullptr;
  ProfileWindow window;
  ProfileView view;
  std::vector<ProfileSplit> splits;  // by rank
};

// Returns what was read, a row a rank, communication by kind, passes, compute by category, and the
// `most` kernels that take longest; then what the profile does not tell.
std::string profile_table(const ProfileReport& report, std::size_t most, int width = kAnyWidth);

nlohmann::ordered_json to_json(const ProfileReport& report, std::size_t most);

}  // namespace tandem
