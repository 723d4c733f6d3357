// FileLock: lets one process at a time write a file, or one part of it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace tandem {

// A lock that ends with this object or with the process, however that ends. Forked children do not
// share it. It locks a file beside the file, `path`.lock. A killed process leaves that file behind,
// which hinders nobody.
class FileLock {
 public:
  // Locks the whole file, or only the part of this number. The Error says which process holds it.
  static Result<FileLock> take(const std::string& path, std::optional<int> part = std::nullopt);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock(std::string path, int file);

  std::string path_;  // of the lock file
  int file_;
  bool removes_file_ = false;  // at the end: it holds the whole file
};

}  // namespace tandem
