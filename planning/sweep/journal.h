// Journal: a CSV file that rows are appended to, one by one, and that outlives whatever ends the
// process: a row is there whole, or it is cut.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// Cuts what an interrupted write left: from the first line on that has no end, or that holds zero
// bytes, as blocks do that never came to the disk. Gives the bytes cut. No file: none.
Result<std::int64_t> cut_torn_lines(const std::string& path);

// What a killed process leaves is whole; a machine that loses its power loses a second's rows.
class Journal {
 public:
  // Appends to the file; a new or empty one gets the header. REQUIRES: no torn lines.
  static Result<Journal> open(const std::string& path, std::string_view header);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  // A line without its end. It is on its way to the disk at the latest with the first line a second
  // later.
  Status append(std::string_view line);
  // All lines are on the disk.
  Status sync();

 private:
  using Clock = std::chrono::steady_clock;

  Journal(std::string path, int file);

  std::string path_;
  int file_;
  Clock::time_point synced_ = Clock::now();
};

}  // namespace tandem
