// Calls PyErr_CheckSignals, and keeps the exception that a signal's handler raises.
#include "python/interrupt.h"

#include <pybind11/pybind11.h>

namespace tandem {

bool Interrupt::pending() {
  constexpr auto kPause = std::chrono::milliseconds(50);
  if (pending_ || std::this_thread::get_id() != owner_ || Clock::now() - last_check_ < kPause)
    return pending_;
  last_check_ = Clock::now();
  const pybind11::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) {
    thrown_ = std::make_exception_ptr(pybind11::error_already_set());
    pending_ = true;
  }
  return pending_;
}

void Interrupt::check() {
  if (pending() && thrown_) std::rethrow_exception(thrown_);
}

}  // namespace tandem
