// Lets rank 0 read the other ranks' clocks, over any connection that carries numbers.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"

namespace tandem {

// Carries numbers between rank 0 and another rank. Rank 0 passes the other rank as `peer`; the
// others pass 0.
struct NumberConnection {
  std::function<Status(int peer, std::span<const Nanoseconds>)> send;
  std::function<Status(int peer, std::span<Nanoseconds>)> receive;
};

// Rank 0 reads the other clocks one after another, many times each. The reading of the shortest
// round trip counts (Cristian 1989). A clock that may be rank 0's own, within half of the round
// trip, is 0 ahead. All ranks must call it. Rank 0 gets a reading of 0 ahead.
Result<ClockReading> compare_clocks(int rank, int ranks, const NumberConnection& connection);

}  // namespace tandem
