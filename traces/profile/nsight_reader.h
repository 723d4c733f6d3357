// Nsight Systems: reads what `nsys export --type sqlite` writes for one or many processes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Returns a rank for each process and GPU that has kernels, in their order. Times are absolute if
// the session's start is known, else they count from it. NVTX ranges become annotations; those
// named as steps ("iteration 3") begin steps. An Error names the file: no SQLite, a table or column
// that is not there, no kernels. Error::Missing in a build without SQLite.
Result<std::vector<ProfileRank>> read_nsight(const std::string& path);

}  // namespace tandem
