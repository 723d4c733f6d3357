// Notes on a profile: what its readers left out, could not know or took for granted.
#pragma once

#include <string>
#include <vector>

#include "traces/profile/profile.h"

namespace tandem {

// Says whether all ranks are on one clock.
bool is_on_one_clock(const Profile& profile);

// Names the ranks whose clocks are not aligned; "": all are.
std::string clocks_note(const Profile& profile);

// Returns the notes as sentences: those of the readers, ranks that are numbered by their place, and
// ranks whose clocks are not aligned.
std::vector<std::string> profile_notes(const Profile& profile);

}  // namespace tandem
