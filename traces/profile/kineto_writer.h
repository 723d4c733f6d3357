// Writes profiles as torch.profiler does, for Holistic Trace Analysis, Perfetto and TensorBoard.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"

namespace tandem {

// Kineto's JSON, schemaVersion 1: kernels and copies, collectives' arguments, annotations,
// distributedInfo. HTA finds a file's rank by the blank behind "rank":.
Status write_kineto(const ProfileRank& rank, const std::string& path);

// How many kernels were written, and how many of them are shorter than 1 us: HTA rounds starts up
// and ends down to whole us, so that they may vanish there.
struct KinetoWritten {
  std::int64_t kernels = 0, below_us = 0;
};

// Before the work that fills it: an Error where the folder is a file, or has profiles already,
// which would be read with these. Empty: nothing.
Status check_kineto_folder(const std::string& folder);

// A file a rank, rank-N.json, in that folder, which is made where it is not there. No file is left
// half written.
Result<KinetoWritten> write_kineto(const Program& program, const Trace& trace,
                                   const std::string& folder);

}  // namespace tandem
