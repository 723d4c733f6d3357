// Nsight Systems: what `nsys export --type sqlite` writes of one or many processes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// A rank for each process and GPU that has kernels, in their order. Times are absolute where the
// session's start is known, else from that start. NVTX ranges are annotations; those named as steps
// are ("iteration 3"). An Error names the file: no SQLite, a table or column that is not there, no
// kernels. Error::Missing in a build without SQLite.
Result<std::vector<ProfileRank>> read_nsight(const std::string& path);

}  // namespace tandem
