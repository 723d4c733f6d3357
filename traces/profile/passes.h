// Some passes of a profile alone: a forward and a backward that run together, say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// "6F3,1B1" as tandem schedule writes them: a stage, F, B, I or W, and a microbatch. An Error says
// what is none.
Result<std::vector<ProfileAction>> passes_named(std::string_view text);

// What these passes computed, and the communication that began and ended meanwhile, as profiles of
// the ranks that ran all of them, without steps. An Error where none did.
Result<Profile> only_passes(Profile profile, const std::vector<ProfileAction>& passes);

}  // namespace tandem
