// Journal: a CSV file to which rows are appended one by one. Whatever ends the process, a row is
// there whole or it can be cut off.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// Cuts off the file's first torn line and all after it, as an interrupted write leaves them: a line
// without an end, or with zero bytes (blocks that never reached the disk). Returns the number of
// bytes cut; 0 if there is no file.
Result<std::int64_t> cut_torn_lines(const std::string& path);

// A file open for appending. If the process is killed all lines are there; if the machine loses
// power, the lines of the last second may be lost.
class Journal {
 public:
  // Opens the file for appending. A new or empty file gets the header. REQUIRES: no torn lines.
  static Result<Journal> open(const std::string& path, std::string_view header);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  // Appends a line; `line` has no end of line. Sends lines to the disk (fdatasync) about once a
  // second.
  Status append(std::string_view line);
  // Sends all lines to the disk.
  Status sync();

 private:
  using Clock = std::chrono::steady_clock;

  Journal(std::string path, int file);

  std::string path_;
  int file_;
  Clock::time_point synced_ = Clock::now();
};

}  // namespace tandem
