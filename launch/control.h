// Control: the few collective operations by which the processes of one run coordinate.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace tandem {

// A comparison of a rank's clock with rank 0's: when the rank's clock showed `at_ns`, it was
// `ahead_ns` ahead of rank 0's, give or take half the round trip.
struct ClockReading {
  Nanoseconds at_ns = 0;
  Nanoseconds ahead_ns = 0;
  Nanoseconds round_trip_ns = 0;
};

// Only one thread may call it.
class Control {
 public:
  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // All ranks must call each of these.
  virtual Status broadcast(std::span<std::byte> bytes) = 0;  // from rank 0
  virtual Status barrier() = 0;                              // waits without using the core
  virtual Result<bool> any(bool own) = 0;                    // whether `own` is true on any rank
  virtual Result<ClockReading> compare_clocks() = 0;         // of this rank's clock
};

}  // namespace tandem
