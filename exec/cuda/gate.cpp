#include "exec/cuda/gate.h"

#include <chrono>

#include "launch/clock.h"

namespace tandem {

Status Gate::open_words() {
  ASSIGN_OR_RETURN(words_, make_mapped<GateWords>());
  return Done{};
}

void Gate::expect() { store(&words_->wanted, load(&words_->wanted) + 1); }

// Opens the gate of the iteration announced last, or of the next one if that gate is open already.
Nanoseconds Gate::open() {
  const std::uint32_t wanted = load(&words_->wanted), opened = load(&words_->opened);
  const Nanoseconds opened_ns = now_ns();
  if (opened != kAllOpened) store(&words_->opened, opened < wanted ? wanted : wanted + 1);
  return opened_ns;
}

void Gate::open_for_good() {
  if (words_) store(&words_->opened, kAllOpened);
}

GateWatch::GateWatch(Gate* gate, Nanoseconds most_ns)
    : gate_(gate), most_ns_(most_ns), thread_([this] { watch(); }) {}

GateWatch::~GateWatch() { end(); }

void GateWatch::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  end_.notify_one();
  thread_.join();
}

void GateWatch::watch() {
  const std::chrono::nanoseconds interval(most_ns_);
  std::int64_t calls_before = -1;
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, interval, [this] { return ended_; })) {
    const std::int64_t calls = calls_;
    if (calls == calls_before) {
      opened_ = true;
      gate_->open();
      return;
    }
    calls_before = calls;
  }
}

}  // namespace tandem
