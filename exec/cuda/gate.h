// Gate: what holds an iteration until all of it has been asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "base/units.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/kernels.h"

namespace tandem {

// The host's side of GateWords. Opened once an iteration, before or after it is asked for.
class Gate {
 public:
  Status open_words();
  GateWords* words() const { return words_.get(); }

  // An iteration is asked for.
  void expect();
  bool is_open() const { return load(&words_->opened) >= load(&words_->wanted); }
  // When, by now_ns().
  Nanoseconds open();
  // Nothing is held any more, whatever follows.
  void open_for_good();
  // Whether the iteration that was asked for last has been carried out; graphs say so.
  bool done() const { return load(&words_->done) >= load(&words_->wanted); }

 private:
  // Device and host share the words.
  static std::uint32_t load(std::uint32_t* word) {
    return std::atomic_ref(*word).load(std::memory_order_acquire);
  }
  static void store(std::uint32_t* word, std::uint32_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_seq_cst);
  }

  Mapped<GateWords> words_;
};

// While it lives, a thread sees to it that issuing goes on: queues of the device take so much and
// no more, and what is held by the gate does not leave them. All may have been issued here and not
// elsewhere, where messages with those held here fill the queues.
class GateWatch {
 public:
  // `gate` outlives it. It is opened when no call has been issued for `most_ns`.
  GateWatch(Gate* gate, Nanoseconds most_ns);
  ~GateWatch();
  GateWatch(const GateWatch&) = delete;
  GateWatch& operator=(const GateWatch&) = delete;

  void issued() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void end();                              // it watches no longer
  bool opened() const { return opened_; }  // it had to

 private:
  void watch();

  Gate* gate_;
  Nanoseconds most_ns_;
  std::atomic<std::int64_t> calls_ = 0;
  std::atomic<bool> opened_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;  // last: it looks at the others
};

}  // namespace tandem
