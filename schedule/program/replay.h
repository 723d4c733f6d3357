// Replay: the times of a Program if every op takes its own duration and links do not contend.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"
#include "schedule/program/rank_folding.h"

namespace tandem {

// The times of an op; -1: not played. A communication op arrives when its rank is ready for it, and
// starts when the last participant has arrived. A compute op arrives and starts at the same time.
struct EventTimes {
  Nanoseconds arrive_ns = -1;
  Nanoseconds start_ns = -1;
  Nanoseconds end_ns = -1;
};

struct Replay {
  std::vector<std::size_t> first;  // by folded rank: its first event; one event an op follows
  std::vector<EventTimes> events;
  // By event: its number in a topological order. The participants of a communication have the same
  // number.
  std::vector<std::uint32_t> settled;
};

// Plays the Program by Kahn's algorithm over lanes, waits and rendezvous, in time linear in ops.
// If the Program deadlocks, returns an Error that names the cycle.
Result<Replay> replay(const Program& program, const RankFolding& folding,
                      const Jitter& jitter = {});

}  // namespace tandem
