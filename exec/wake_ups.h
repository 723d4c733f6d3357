// WakeUps: measures how much later ops ended because the host's cores were busy. A timed op is due
// at its priced end, but ends when the executor's loop wakes up. A matrix product is due when its
// CPU time has passed since its begin, but ends later if its thread lost its core meanwhile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem {

struct LateWakeUps {
  std::int64_t ops = 0;    // ops that were measured; 0: none
  Nanoseconds p95_ns = 0;  // 95th percentile of the ops' lateness
  double share = 0;        // the sum of all lateness, by the sum of all due durations
};

class WakeUps {
 public:
  // Adds an op that began at `begin`, was due to end at `due`, and ended at `end`.
  void add(Nanoseconds begin, Nanoseconds due, Nanoseconds end) {
    late_ns_.push_back(std::max<Nanoseconds>(0, end - due));
    sum_late_ns_ += late_ns_.back();
    sum_due_ns_ += due - begin;
  }

  LateWakeUps found() {
    if (sum_due_ns_ <= 0) return {};
    LateWakeUps late{.ops = static_cast<std::int64_t>(late_ns_.size())};
    const std::size_t rank = (95 * late_ns_.size() + 99) / 100;  // nearest rank, from 1
    const auto p95 = late_ns_.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(late_ns_.begin(), p95, late_ns_.end());
    late.p95_ns = *p95;
    late.share = static_cast<double>(sum_late_ns_) / static_cast<double>(sum_due_ns_);
    return late;
  }

 private:
  std::vector<Nanoseconds> late_ns_;
  Nanoseconds sum_late_ns_ = 0, sum_due_ns_ = 0;
};

}  // namespace tandem
