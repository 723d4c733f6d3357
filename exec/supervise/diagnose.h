// Diagnosis: why a run does not go on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// How far a rank has come.
struct RankProgress {
  std::vector<std::uint32_t> done;  // ops ended, by lane
  std::vector<std::uint8_t> begun;  // by lane: the next op has arrived
  std::string exit_reason;          // empty: alive; else "was killed by signal 9 (Killed)"
};

// Says in one line why a run does not go on; empty: all ranks have ended.
//
// A rank with an exit reason is the culprit. It is named with the ops that it was in and the ranks
// that wait for it: "rank 2 was killed by signal 9 (Killed) in forward 3 of stage 2 (lane compute);
// rank 3 waits for it in recv 3 of stage 3 (lane 2>3)".
//
// If there is none, the first rank that has not ended is followed to what it waits for in the end:
//   a cycle: "rank 0 waits in send 1 of stage 0 (lane 0>1) for rank 1, which waits in ... for rank
//     0";
//   a partner that never comes: "rank 0 waits in send 1 of stage 0 (lane 0>1) for rank 1, which has
//     no partner for it";
//   an op that goes on and on, or was never begun, and who waits for its rank: "rank 1 is still in
//     forward 2 of stage 1 (lane compute); rank 2 waits for it in ...".
std::string diagnose(const Program& program, std::span<const RankProgress> progress);

}  // namespace tandem
