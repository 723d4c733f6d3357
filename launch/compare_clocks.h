// How rank 0 reads the other ranks' clocks, over whatever carries numbers.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"

namespace tandem {

// Carries numbers between rank 0 and another: of rank 0 `peer` is the other, of others 0.
struct NumberConnection {
  std::function<Status(int peer, std::span<const Nanoseconds>)> send;
  std::function<Status(int peer, std::span<Nanoseconds>)> receive;
};

// Rank 0 reads one clock after the other; of many readings the one of the least round trip counts
// (Cristian 1989). All ranks call it.
Result<ClockReading> compare_clocks(int rank, int ranks, const NumberConnection& connection);

}  // namespace tandem
