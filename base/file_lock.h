// FileLock: who writes a file, or a part of it, writes it alone.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace tandem {

// Given up when it goes or the process ends, however it does; not shared with forked children. The
// locked file is one beside the file, `path`.lock, which a killed process leaves behind: it
// hinders nobody.
class FileLock {
 public:
  // The whole, or of a file in parts the part of this number. An Error says which process has it.
  static Result<FileLock> take(const std::string& path, std::optional<int> part = std::nullopt);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock(std::string path, int file, bool whole);

  std::string path_;  // of the lock
  int file_;
  bool whole_;
};

}  // namespace tandem
