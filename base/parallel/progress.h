// Shows how long something takes: a stopwatch, a progress bar with rate and time left, and a line
// that says what is waited for. The last two write to stderr, and only to a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/parallel/parallel.h"

namespace tandem {

// Measures the seconds since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A progress bar on stderr, for work whose steps are counted.
class Progress {
 public:
  // `what` names the things counted: "runs". Nothing shows in the first half second.
  Progress(std::string what, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line

  void advance(std::int64_t count = 1);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point begin_;
  Clock::time_point last_;
};

// A line for work whose steps are not counted: "lowering, 12 s". A thread of its own shows it from
// the first second on. REQUIRES: nobody forks during its life.
class Waiting {
 public:
  explicit Waiting(std::string what);
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();  // wipes the line

  void now(std::string what);

 private:
  std::mutex mutex_;
  std::string what_;
  std::int64_t seconds_ = 0;
  std::optional<Ticker> ticker_;  // none without a terminal
};

// Returns the bar as text: "[####....] 12/30 runs, 3.4/s, 5 s left".
std::string progress_line(const std::string& what, std::int64_t done, std::int64_t total,
                          double elapsed_s);

}  // namespace tandem
