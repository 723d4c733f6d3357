// Control: the few operations by which the processes of one run agree: who they are, when they
// begin, how far their clocks differ.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace tandem {

// A reading of another rank's clock by rank 0. At `at_ns` of that clock it was `ahead_ns` ahead of
// rank 0's, give or take half the round trip.
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
  virtual Status barrier() = 0;                              // lets others use the core meanwhile
  virtual Result<bool> any(bool own) = 0;                    // whether `own` is true on any rank
  virtual Result<ClockReading> compare_clocks() = 0;
};

}  // namespace tandem
