#include "sim/processor_sharing.h"

#include <algorithm>

namespace tandem {

void ProcessorSharing::enter(std::int32_t operation, double alone_s, Nanoseconds now) {
  if (empty()) {
    begin_ns_ = now;
    since_s_ = virtual_s_ = 0;
  }
  advance_to(now);
  const Operation entered{virtual_s_ + alone_s, virtual_s_, operation};
  operations_.insert(
      std::ranges::lower_bound(operations_, entered.end_s, std::greater<>(), &Operation::end_s),
      entered);
}

void ProcessorSharing::take_next() {
  since_s_ = next_end_s();
  virtual_s_ = operations_.back().end_s;
  operations_.pop_back();
}

double ProcessorSharing::speed() const {
  return std::min(1.0, 1 / (load_ * static_cast<double>(operations_.size())));
}

double ProcessorSharing::next_end_s() const {
  return since_s_ + std::max(0.0, operations_.back().end_s - virtual_s_) / speed();
}

void ProcessorSharing::advance_to(Nanoseconds now) {
  const double now_s = to_seconds(now - begin_ns_);
  if (operations_.empty() || now_s <= since_s_) return;
  virtual_s_ += (now_s - since_s_) * speed();
  since_s_ = now_s;
}

}  // namespace tandem
