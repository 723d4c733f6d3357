// The clocks that executors measure with, and sleeps.
#pragma once

#include <poll.h>
#include <sys/prctl.h>

#include <ctime>

#include "base/units.h"

namespace tandem {

inline Nanoseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Reads the clock that all processes of a machine share.
inline Nanoseconds now_ns() { return read_clock(CLOCK_MONOTONIC); }

// Returns how long this thread has run on a core.
inline Nanoseconds thread_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

// Sleeps until now_ns() is `until`, or until the descriptor can be read.
inline void sleep_until(Nanoseconds until, int descriptor = -1) {
  const Nanoseconds left = until - now_ns();
  if (left <= 0) return;
  const timespec time{left / 1'000'000'000, left % 1'000'000'000};
  pollfd event{descriptor, POLLIN, 0};
  ppoll(&event, descriptor < 0 ? 0 : 1, &time, nullptr);
}

// During its life this thread's sleeps end on time, not up to 50 us late (Linux's timer slack).
class ExactSleep {
 public:
  ExactSleep() : before_ns_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1); }
  ~ExactSleep() {
    if (before_ns_ > 0) prctl(PR_SET_TIMERSLACK, before_ns_);
  }
  ExactSleep(const ExactSleep&) = delete;
  ExactSleep& operator=(const ExactSleep&) = delete;

 private:
  int before_ns_;
};

}  // namespace tandem
