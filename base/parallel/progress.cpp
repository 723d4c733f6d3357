#include "base/parallel/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tandem {

std::string progress_line(const std::string& what, std::int64_t done, std::int64_t total,
                          double elapsed_s) {
  constexpr int kWidth = 24;
  total = std::max(total, done);  // the total may be a guess
  const int filled = total > 0 ? static_cast<int>(kWidth * done / total) : 0;
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  const std::string left =
      rate > 0 ? fmt::format("{:.0f} s left", static_cast<double>(total - done) / rate) : "";
  return fmt::format("[{:#<{}}{:.<{}}] {}/{} {}, {:.1f}/s, {}", "", filled, "", kWidth - filled,
                     done, total, what, rate, left);
}

Progress::Progress(std::string what, std::int64_t total)
    : what_(std::move(what)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(Clock::now()),
      last_(begin_) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

Waiting::Waiting(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO) == 0) return;
  ticker_.emplace([this] {
    const std::lock_guard lock(mutex_);
    std::fputs(fmt::format("\r\033[K{}, {} s", what_, ++seconds_).c_str(), stderr);
  });
}

Waiting::~Waiting() {
  ticker_.reset();
  if (seconds_ > 0) std::fputs("\r\033[K", stderr);
}

void Waiting::now(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::advance(std::int64_t count) {
  done_ += count;
  const auto now = Clock::now();
  if (!terminal_ || now - last_ < std::chrono::milliseconds(shown_ ? 100 : 500)) return;
  last_ = now;
  shown_ = true;
  const double elapsed_s = std::chrono::duration<double>(now - begin_).count();
  std::fputs(("\r\033[K" + progress_line(what_, done_, total_, elapsed_s)).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace tandem
