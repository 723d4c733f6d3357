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

// Returns a line on what was read; tables by rank, kind of communication, pass, category of compute
// and kernel (the `most` that take longest); then notes on what the profile does not tell.
std::string profile_table(const ProfileReport& report, std::size_t most, int width = kAnyWidth);

nlohmann::ordered_json to_json(const ProfileReport& report, std::size_t most);

}  // namespace tandem
