// ClockMap: translates times of a rank's own clock into times of rank 0's.
#pragma once

#include <cmath>

#include "base/units.h"
#include "launch/control.h"

namespace tandem {

// Interpolates linearly between a reading before and one after a run. Without the latter
// (round_trip_ns 0) it assumes that the clocks do not drift.
class ClockMap {
 public:
  ClockMap(const ClockReading& before, const ClockReading& after) : before_(before) {
    if (after.round_trip_ns > 0 && after.at_ns > before.at_ns)
      drift_ = static_cast<double>(after.ahead_ns - before.ahead_ns) /
               static_cast<double>(after.at_ns - before.at_ns);
  }

  // Returns -1 (never) for -1.
  Nanoseconds operator()(Nanoseconds own) const {
    if (own < 0) return own;
    return own - before_.ahead_ns - std::llround(drift_ * static_cast<double>(own - before_.at_ns));
  }

 private:
  ClockReading before_;
  double drift_ = 0;  // ns ahead per ns
};

}  // namespace tandem
