#include "planning/sweep/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"

namespace tandem {
namespace {

Error cannot(const std::string& path, std::string_view what) {
  return Error::at(path, fmt::format("cannot be {}: {}", what, std::strerror(errno)));
}

// Returns the bytes before the first torn line: one without an end, or with zero bytes.
std::size_t bytes_before_torn_line(std::string_view text) {
  const std::string_view written = text.substr(0, text.find('\0'));
  const std::size_t end = written.rfind('\n');
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

Result<std::int64_t> cut_torn_lines(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return 0;
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const std::size_t kept = bytes_before_torn_line(text);
  if (kept < text.size() && ::truncate(path.c_str(), static_cast<off_t>(kept)) != 0)
    return cannot(path, "cut");
  return static_cast<std::int64_t>(text.size() - kept);
}

Result<Journal> Journal::open(const std::string& path, std::string_view header) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return cannot(path, "written");
  Journal journal(path, file);
  if (::lseek(file, 0, SEEK_END) == 0) RETURN_IF_ERROR(journal.append(header));
  return journal;
}

Journal::Journal(std::string path, int file) : path_(std::move(path)), file_(file) {}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      synced_(other.synced_) {}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

Status Journal::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  for (std::string_view left = text; !left.empty();) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno != EINTR) return cannot(path_, "written");
    if (written > 0) left.remove_prefix(static_cast<std::size_t>(written));
  }
  if (Clock::now() - synced_ < std::chrono::seconds(1)) return Done{};
  return sync();
}

Status Journal::sync() {
  synced_ = Clock::now();
  if (::fdatasync(file_) != 0) return cannot(path_, "written");
  return Done{};
}

}  // namespace tandem
