// Control: how the processes of one run agree: who they are, when they begin, whose clock is ahead.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace tandem {

// Another rank's clock as rank 0 read it: at `at_ns` of that clock it was `ahead_ns` ahead of rank
// 0's, give or take half the round trip.
struct ClockReading {
  Nanoseconds at_ns = 0;
  Nanoseconds ahead_ns = 0;
  Nanoseconds round_trip_ns = 0;
};

// One thread calls it.
class Control {
 public:
  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // All ranks call these.
  virtual Status broadcast(std::span<std::byte> bytes) = 0;  // from rank 0
  virtual Status barrier() = 0;                              // leaves the core to others meanwhile
  virtual Result<bool> any(bool own) = 0;                    // whether it is so on one of them
  virtual Result<ClockReading> compare_clocks() = 0;
};

}  // namespace tandem
