// Picks some passes out of a profile: for instance a forward and a backward that run together.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Parses passes such as "6F3,1B1", as tandem schedule writes them: a stage, F, B, I or W, and a
// microbatch. An Error quotes what is not a pass.
Result<std::vector<ProfileAction>> passes_named(std::string_view text);

// Returns the ranks that ran all of these passes, without steps and cut down to the passes' kernels
// of compute and the communication that began and ended meanwhile. An Error if no rank ran all of
// them.
Result<Profile> only_passes(Profile profile, const std::vector<ProfileAction>& passes);

}  // namespace tandem
