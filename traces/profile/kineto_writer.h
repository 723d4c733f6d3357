// Writes profiles as torch.profiler does, for Holistic Trace Analysis, Perfetto and TensorBoard.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"

namespace tandem {

// Writes Kineto's JSON, schemaVersion 1: kernels and copies, collectives' arguments, annotations,
// distributedInfo. HTA needs the blank after "rank": to find a file's rank.
Status write_kineto_rank(const ProfileRank& rank, const std::string& path);

// How many kernels were written, and how many of them are shorter than 1 us. HTA rounds starts up
// and ends down to whole us, so those may vanish there.
struct KinetoWritten {
  std::int64_t kernels = 0, below_us = 0;
};

// Checks that the folder can take profiles. Error if it is a file or already has profiles, which
// would be read together with the new ones. An empty name passes.
Status check_kineto_folder(const std::string& folder);

// Writes a file for each rank, rank-N.json, in the folder, which is created if it does not exist.
// No file is left half written.
Result<KinetoWritten> write_kineto(const Program& program, const Trace& trace,
                                   const std::string& folder);

}  // namespace tandem
