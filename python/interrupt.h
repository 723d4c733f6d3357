// Interrupt: notices Ctrl-C in Python while C++ works without Python's lock (the GIL).
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace tandem {

// Belongs to one call. Python runs its signal handlers in its main thread only, and there only when
// it is asked to. The thread that makes an Interrupt asks it, at most every 50 ms.
class Interrupt {
 public:
  // Whether the call is to end. Any thread may ask, without Python's lock.
  bool pending();
  // Throws what a handler threw (KeyboardInterrupt). REQUIRES: called by the thread that made it.
  void check();

 private:
  using Clock = std::chrono::steady_clock;

  const std::thread::id owner_ = std::this_thread::get_id();
  Clock::time_point asked_ = Clock::now();
  std::atomic<bool> pending_ = false;
  std::exception_ptr thrown_;
};

}  // namespace tandem
