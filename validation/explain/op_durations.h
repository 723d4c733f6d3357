// OpDurations: how long each op of each rank takes, for a replay of a Program in which ranks of one
// body may differ.
#pragma once

#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "schedule/program/replay.h"
#include "traces/trace.h"

namespace tandem {

struct OpDurations {
  std::vector<std::vector<Nanoseconds>> compute;  // by rank and op of its body; 0: communication
  std::vector<std::vector<Nanoseconds>> comm;     // by communicator, its n-th operation
  Nanoseconds after = 0;                          // from the last end to the next iteration
};

// Returns the durations that a trace of the Program has. A rank that was not played has those of a
// rank with its body. REQUIRES: each body has a played rank.
OpDurations durations_of(const Program& program, const Trace& trace);

// Plays all ranks with these durations: a communication starts when its last participant has
// arrived, and no links are shared.
Replay replay(const Program& program, const OpDurations& durations);
// Returns the length of the iteration.
Nanoseconds replayed(const Program& program, const OpDurations& durations);

// Numbers each communication of a body among those of its slot; compute has 0.
std::vector<std::uint32_t> numbers_in_slots(const Body& body);

}  // namespace tandem
