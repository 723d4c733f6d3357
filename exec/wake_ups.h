// WakeUps: how much later ops ended than they would have if their executor had always had a core. A
// timed op ends when a loop wakes; a product ends when its thread has been on a core for long
// enough.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem {

struct LateWakeUps {
  std::int64_t ops = 0;    // ops that a core of the host ends; 0: none
  Nanoseconds p95_ns = 0;  // 95th percentile of how late they ended
  double share = 0;        // their lateness together, by the time they should have taken together
};

class WakeUps {
 public:
  // Notes an op that began, was to end at `due`, and ended at `end`.
  void add(Nanoseconds begin, Nanoseconds due, Nanoseconds end) {
    late_ns_.push_back(std::max<Nanoseconds>(0, end - due));
    all_late_ns_ += late_ns_.back();
    waited_ns_ += due - begin;
  }

  LateWakeUps found() {
    if (waited_ns_ <= 0) return {};
    LateWakeUps late{.ops = static_cast<std::int64_t>(late_ns_.size())};
    const std::size_t rank = (95 * late_ns_.size() + 99) / 100;  // nearest rank, from 1
    const auto at = late_ns_.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(late_ns_.begin(), at, late_ns_.end());
    late.p95_ns = *at;
    late.share = static_cast<double>(all_late_ns_) / static_cast<double>(waited_ns_);
    return late;
  }

 private:
  std::vector<Nanoseconds> late_ns_;
  Nanoseconds all_late_ns_ = 0, waited_ns_ = 0;
};

}  // namespace tandem
