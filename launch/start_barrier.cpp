#include "launch/start_barrier.h"

#include <span>

#include "launch/clock.h"

namespace tandem {

Status wait_for_start(Control* control, Nanoseconds ahead_ns) {
  constexpr Nanoseconds kLead_ns = 5'000'000;  // from the message to the start
  constexpr Nanoseconds kSpin_ns = 50'000;     // spun at the end, as a sleep may end late
  RETURN_IF_ERROR(control->barrier());
  Nanoseconds begin = now_ns() + kLead_ns;
  RETURN_IF_ERROR(control->broadcast(std::as_writable_bytes(std::span(&begin, 1))));
  begin += ahead_ns;
  sleep_until(begin - kSpin_ns);
  while (now_ns() < begin) continue;
  return Done{};
}

}  // namespace tandem
