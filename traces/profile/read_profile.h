// Reads profiles of any format: files, and folders of them, one for each rank.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Says whether the name is a profile's: *.json, *.json.gz (torch.profiler), *.sqlite (nsys export
// --type sqlite).
bool has_profile_name(const std::string& path);
// Says whether the path is a folder, or a file that may be a profile by its name or first bytes.
bool may_be_profile(const std::string& path);

// Reads the ranks of all files (in folders, by the natural order of their names), keeps the steps
// that all ranks have (finish_rank.h), and aligns their clocks (align.h). A rank's number is what
// its file says, else the number in the file's name
// ("rank-3", "rank3"), else its place. An Error names the file: a folder without profiles, two
// files of one rank, files of two jobs, or what its reader says.
Result<Profile> read_profile(const std::vector<std::string>& paths);

}  // namespace tandem
