// Waits for an event, not for a time.
#pragma once

#include <unistd.h>

#include <functional>

namespace tandem {

// Asks every 10 ms until it holds, for 30 s at most. Returns whether it came to hold.
inline bool comes_true(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    usleep(10'000);
  }
  return false;
}

}  // namespace tandem
