// Interrupt: notices Ctrl-C in Python while C++ works without Python's lock (the GIL).
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace tandem {

// Belongs to one call. Python runs signal handlers only in its main thread, and there only inside
// PyErr_CheckSignals. The thread that makes an Interrupt calls this, at most every 50 ms.
class Interrupt {
 public:
  // Says whether the call is to end. Any thread may call this, without Python's lock.
  bool pending();
  // Throws what a handler threw (KeyboardInterrupt). REQUIRES: called by the thread that made it.
  void check();

 private:
  using Clock = std::chrono::steady_clock;

  const std::thread::id owner_ = std::this_thread::get_id();
  Clock::time_point last_check_ = Clock::now();
  std::atomic<bool> pending_ = false;
  std::exception_ptr thrown_;
};

}  // namespace tandem
