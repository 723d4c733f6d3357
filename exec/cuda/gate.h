// Gate: holds an iteration back until all of its calls have been issued.
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

// The host's side of GateWords. The host calls expect() and open() once for each iteration, in
// either order. The iteration's gate kernel holds all streams until both have been called.
class Gate {
 public:
  Status open_words();
  GateWords* words() const { return words_.get(); }

  // Announces that an iteration is about to be issued.
  void expect();
  bool is_open() const { return load(&words_->opened) >= load(&words_->wanted); }
  // Opens the gate. Returns when, by now_ns().
  Nanoseconds open();
  // Opens the gate for all iterations to come.
  void open_for_good();
  // Returns whether the graph launched last has been carried out. Other launches do not tell.
  bool done() const { return load(&words_->done) >= load(&words_->wanted); }

 private:
  // Device and host share the words, so they are read and written atomically.
  static std::uint32_t load(std::uint32_t* word) {
    return std::atomic_ref(*word).load(std::memory_order_acquire);
  }
  static void store(std::uint32_t* word, std::uint32_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_seq_cst);
  }

  Mapped<GateWords> words_;
};

// Opens the gate if issuing stalls, by a thread that runs while this lives. A hardware queue takes
// about 1,000 calls, and calls that the gate holds do not leave it. So issuing may stall here, or
// in another process whose queues fill with messages to ranks that are held here.
class GateWatch {
 public:
  // Opens `gate` when no call has been issued for `most_ns`. REQUIRES: `gate` outlives this.
  GateWatch(Gate* gate, Nanoseconds most_ns);
  ~GateWatch();
  GateWatch(const GateWatch&) = delete;
  GateWatch& operator=(const GateWatch&) = delete;

  void issued() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void end();                              // stops watching
  bool opened() const { return opened_; }  // whether this has opened the gate

 private:
  void watch();

  Gate* gate_;
  Nanoseconds most_ns_;
  std::atomic<std::int64_t> calls_ = 0;
  std::atomic<bool> opened_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;  // last, as it uses the other members
};

}  // namespace tandem
