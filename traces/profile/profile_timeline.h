// A profile's timeline for the page that draws it (traces/timeline.h).
#pragma once

#include <string>

#include "traces/profile/profile.h"

namespace tandem {

// Makes a lane of each stream and activity of a profile. "names" lists the kernels' names, and a
// lane's column "name_of" points into it. Kernels whose pass is unknown have the kind "compute".
std::string timeline_json(const Profile& profile);

}  // namespace tandem
