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

// Returns what means over steps and ranks hide, as sentences: steps of other lengths, and GPUs of
// other models than each other's or `device`, the simulated one ("": none).
std::vector<std::string> notes_on_means(const Profile& profile, const std::string& device);

// Returns the notes as sentences: those of the readers, ranks that are numbered by their place,
// ranks whose clocks are not aligned, and notes_on_means().
std::vector<std::string> profile_notes(const Profile& profile, const std::string& device = "");

}  // namespace tandem
