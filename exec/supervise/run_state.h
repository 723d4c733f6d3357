// RunState: the progress, times and errors of a rank that plays, in memory that outlives its
// process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "exec/recording.h"
#include "exec/wake_ups.h"
#include "launch/control.h"
#include "launch/secret.h"
#include "schedule/program/program.h"

namespace tandem {

// The phases of a rank, in order. Joined: the transport is open, and the rank waits to be told that
// all others have joined.
enum class Phase : std::uint32_t { Starting, Joined, Playing, Ended };

// A rank's state as plain bytes. The process that plays shares these with its watchdog, which sends
// them to rank 0 unchanged. One process writes, others read at any time.
class RunState {
 public:
  struct Header {
    std::atomic<Phase> phase;
    std::atomic<std::uint32_t> go;  // 1: all ranks have joined
    // The watchdog sets `stop` when the run is over. A child that polls it sets `heeds_stop`: it
    // then has a while to abort communication that others wait for before it is killed.
    std::atomic<std::uint32_t> stop, heeds_stop;
    std::atomic<std::uint32_t> iteration;  // under way, warm-up included
    // Counts the ops that have ended, over all iterations, and before the first op the resources
    // that the rank has opened. While the count grows, the rank makes progress.
    std::atomic<std::uint64_t> steps;
    std::int64_t payloads_checked;
    std::uint32_t shares_queues;  // Execution::shares_queues
    LateWakeUps late;             // of the iterations that are kept
    ClockReading before;          // clocks compared before the first iteration
    ClockReading after;           // and after the last; round_trip_ns 0: not read
    Digest run;                   // the run's key, by which watchdogs join
    char coordinator[512];        // where rank 0 listens
    char note[512];      // such as the devices it plays on; rank 0's is added to Execution::real
    char failure[1024];  // why the rank gave up, in its own words
    Error::Kind failure_kind;
    Nanoseconds failed_ns;  // when it gave up, on its own clock
  };

  // Makes a zeroed state, in memory that a forked child shares.
  RunState(const Program& program, int body, int iterations);
  // Copies a state that came from elsewhere. REQUIRES: bytes.size() == size_of(...).
  RunState(const Program& program, int body, int iterations, std::vector<std::byte> bytes);
  static std::size_t size_of(const Program& program, int body, int iterations);

  Header& header() { return *reinterpret_cast<Header*>(bytes_.data()); }
  const Header& header() const { return *reinterpret_cast<const Header*>(bytes_.data()); }
  // By lane: the number of ops that have ended in this iteration; whether the next one has begun.
  std::span<std::uint32_t> done();
  std::span<std::uint8_t> begun();
  // Returns the times of a kept iteration (counted from 0), by op, on the rank's own clock.
  std::span<OwnTimes> times(int iteration);
  std::span<const std::byte> bytes() const { return bytes_; }

  void fail(const Error& why);

 private:
  struct Unmap {
    std::size_t size;
    void operator()(void* memory) const;
  };
  std::size_t lanes_ = 0;
  std::size_t ops_ = 0;
  std::unique_ptr<void, Unmap> shared_;
  std::vector<std::byte> copy_;
  std::span<std::byte> bytes_;  // of shared_ or copy_
};

}  // namespace tandem
