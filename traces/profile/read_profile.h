// Reads profiles of any form: files, and folders of them, one a rank.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// *.json, *.json.gz (torch.profiler), *.sqlite (nsys export --type sqlite).
bool has_profile_name(const std::string& path);
// What is a folder, or a file that may be a profile by its name or first bytes.
bool may_be_profile(const std::string& path);

// The ranks of all files, folders' in the order of their names; clocks aligned (align.h). A rank is
// what its file says, else the number in the file's name ("rank-3", "rank3"), else its place. An
// Error names the file: a folder without profiles, two files of one rank, or what its reader says.
Result<Profile> read_profile(const std::vector<std::string>& paths);

}  // namespace tandem
