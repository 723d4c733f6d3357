// Kineto: reads the JSON that torch.profiler writes for one rank, plain or gzip (libkineto,
// schemaVersion 1; also that of older versions, and of ROCm).
#pragma once

#include <string>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Reads a file's ranks, one for each GPU on which kernels ran. Times are absolute, from 1970, if
// the file says where its clock is. An Error names the file and, where there is one, the line: no
// JSON, cut off, another schemaVersion, no kernel of a GPU, several GPUs on one of many ranks.
Result<std::vector<ProfileRank>> read_kineto(const std::string& path);

}  // namespace tandem
