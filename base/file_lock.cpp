// Locks bytes of `path`.lock with POSIX locks (fcntl), which work over NFS and which children do
// not inherit. A holder of the whole file removes `path`.lock at the end. So take() may lock a file
// that was removed just before; it then tries again.
#include "base/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tandem {
namespace {

// Returns the bytes to lock: byte `part`, or all of them.
struct flock range_of(std::optional<int> part) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = part.value_or(0);
  range.l_len = part ? 1 : 0;  // 0: to the end, however far
  return range;
}

// Returns whether the open file is still the one at that path.
bool is_still_at(const std::string& path, int file) {
  struct stat by_path {
  }, opened{};
  return ::stat(path.c_str(), &by_path) == 0 && ::fstat(file, &opened) == 0 &&
         by_path.st_ino == opened.st_ino && by_path.st_dev == opened.st_dev;
}

// Says why `file` could not be locked, by errno: who holds it, if that is known.
Error not_taken(const std::string& path, const std::string& lock_path, int file,
                std::optional<int> part) {
  const bool is_held = errno == EACCES || errno == EAGAIN;
  if (!is_held)
    return Error{fmt::format("{}: cannot be locked: {}", lock_path, std::strerror(errno)),
                 Error::Failed};
  struct flock range = range_of(part);
  const bool known = ::fcntl(file, F_GETLK, &range) == 0 && range.l_type != F_UNLCK;
  return Error{fmt::format("{}: found that {} writes it, expected nobody else to", path,
                           known ? fmt::format("process {}", range.l_pid) : "somebody"),
               Error::Failed};
}

}  // namespace

Result<FileLock> FileLock::take(const std::string& path, std::optional<int> part) {
  const std::string lock_path = path + ".lock";
  for (;;) {
    const int file = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
      return Error::at(lock_path, fmt::format("cannot be written: {}", std::strerror(errno)));
    FileLock lock(lock_path, file);
    struct flock range = range_of(part);
    if (::fcntl(file, F_SETLK, &range) != 0) return not_taken(path, lock_path, file, part);
    if (!is_still_at(lock_path, file)) continue;
    lock.removes_file_ = !part;
    return lock;
  }
}

FileLock::FileLock(std::string path, int file) : path_(std::move(path)), file_(file) {}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      removes_file_(other.removes_file_) {}

FileLock::~FileLock() {
  if (file_ < 0) return;
  if (removes_file_) ::unlink(path_.c_str());  // while the lock keeps others out
  ::close(file_);
}

}  // namespace tandem
