// Diagnosis: why a run does not go on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// How far a rank is.
struct RankProgress {
  std::vector<std::uint32_t> done;  // ops ended, by lane
  std::vector<std::uint8_t> begun;  // by lane: the next op has arrived
  std::string exit_reason;          // empty: alive; else "was killed by signal 9 (Killed)"
};

// One line. A rank with an exit reason is the culprit, and is named with the ops that it was in and
// who waits for it: "rank 2 was killed by signal 9 (Killed) in forward 3 of stage 2 (lane compute);
// rank 3 waits for it in recv 3 of stage 3 (lane 2>3)". Else what the first rank that has not ended
// waits for is followed to its end:
//
//   a cycle: "rank 0 waits in send 1 of stage 0 (lane 0>1) for rank 1, which waits in ... for rank
//   0"; a partner that never comes: "rank 0 waits in send 1 of stage 0 (lane 0>1) for rank 1, which
//   has no partner for it"; or an op that goes on and on, or was never begun, and who waits for its
//   rank: "rank 1 is still in forward 2 of stage 1 (lane compute); rank 2 waits for it in ...".
//
// Empty where all ranks have ended.
std::string diagnose(const Program& program, std::span<const RankProgress> progress);

}  // namespace tandem
