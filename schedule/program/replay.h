// Replay: a Program's times when every op takes its own duration and no links contend.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"
#include "schedule/program/rank_folding.h"

namespace tandem {

// A communication has arrived when its rank is ready, and starts when the last participant is. For
// compute both are the same.
struct EventTimes {
  Nanoseconds arrive_ns = -1;
  Nanoseconds start_ns = -1;
  Nanoseconds end_ns = -1;
};

struct Replay {
  std::vector<std::size_t> first;  // a folded rank's first event; then one event an op of its body
  std::vector<EventTimes> events;
  std::vector<std::uint32_t> settled;  // event -> its number in an order that respects all waiting;
                                       // participants of one communication have the same number
};

// Kahn's algorithm over lanes, waits and rendezvous: linear in ops. An Error names the cycle where
// the program waits for itself.
Result<Replay> replay(const Program& program, const RankFolding& folding,
                      const Jitter& jitter = {});

}  // namespace tandem
