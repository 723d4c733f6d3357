// Kineto: the JSON that torch.profiler writes of one rank, plain or gzip (libkineto, schemaVersion
// 1; also of older versions, and of ROCm).
#pragma once

#include <string>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Times are absolute: from 1970, where the file's clock is. An Error names the file and, where
// there is one, the line: no JSON, cut off, another schemaVersion, no kernel of a GPU.
Result<ProfileRank> read_kineto(const std::string& path);

}  // namespace tandem
