// A progress bar with rate and time left, on stderr, and only where stderr is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem {

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

// The line itself: "[####....] 12/30 runs, 3.4/s, 5 s left".
std::string progress_line(const std::string& what, std::int64_t done, std::int64_t total,
                          double elapsed_s);

}  // namespace tandem
