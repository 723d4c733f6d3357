// FileWriter writes to a file without a name (O_TMPFILE) in the target's folder, so that nothing
// remains if the process dies. commit() links it there as TARGET.PID.tmp, and renames that to the
// target: readers find the old file or all of the new one. Where there are no files without names,
// TARGET.PID.tmp is written from the start.
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace tandem {
namespace {

std::string descriptor_link(int file) { return fmt::format("/proc/self/fd/{}", file); }

// Returns whether the path is a pipe, socket or device (/dev/null), which must not be replaced.
bool is_device(const std::string& path) {
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  using std::filesystem::file_type;
  return type == file_type::fifo || type == file_type::character || type == file_type::socket ||
         type == file_type::block;
}

// Follows symbolic links to their end, whether a file is there or not. Returns "" if they never
// end.
std::string resolve_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::filesystem::path target = path;
  std::error_code unknown;
  for (int links = 0; std::filesystem::is_symlink(target, unknown); ++links) {
    if (links == kMostLinks) return "";
    target = target.parent_path() / std::filesystem::read_symlink(target, unknown);
  }
  return target.string();
}

// Opens a file without a name in the folder of `path`. Returns -1 if the file system has no such
// files, or if there is no /proc, through whose links the file gets its name later.
int open_nameless(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int file =
      ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0 || ::access(descriptor_link(file).c_str(), F_OK) == 0) return file;
  ::close(file);
  return -1;
}

// Opens a new file of that name. If a file or link is there, removes it instead of writing to it:
// somebody else may have put it there, or an earlier process with our process id.
int open_new(const std::string& name) {
  const auto open = [&] {
    return ::open(name.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
  };
  const int file = open();
  const bool is_taken = file < 0 && errno == EEXIST;
  return is_taken && std::remove(name.c_str()) == 0 ? open() : file;
}

// Gives the new file the mode of the file at `path`, which it will replace.
void keep_mode(int file, const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode))
    (void)::fchmod(file, found.st_mode & 0777);  // some file systems have no modes
}

// Opens a file that will replace `target`: one without a name, or else `temporary`.
int open_replacement(const std::string& target, const std::string& temporary) {
  int file = open_nameless(target);
  if (file < 0) file = open_new(temporary);
  if (file >= 0) keep_mode(file, target);
  return file;
}

bool is_nameless(std::FILE* file) {
  struct stat found {};
  return ::fstat(fileno(file), &found) == 0 && found.st_nlink == 0 && S_ISREG(found.st_mode);
}

// Links the nameless file into its folder. Removes a leftover of that name first, which an earlier
// process with our process id may have left.
bool give_name(std::FILE* file, const std::string& name) {
  const std::string own = descriptor_link(fileno(file));
  const auto link = [&] {
    return ::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link()) return true;
  const bool is_taken = errno == EEXIST;
  return is_taken && std::remove(name.c_str()) == 0 && link();
}

Error cannot_write(const std::string& path, int why) {
  return Error::at(path, fmt::format("cannot be written: {}", std::strerror(why)));
}

}  // namespace

std::string why_unreadable(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0)
    return errno == ENOENT ? "no such file" : std::strerror(errno);
  if (S_ISDIR(found.st_mode)) return "is a directory";
  if (S_ISFIFO(found.st_mode)) return "is a pipe";
  if (S_ISCHR(found.st_mode) || S_ISBLK(found.st_mode)) return "is a device";
  if (!S_ISREG(found.st_mode)) return "is a socket";
  return ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0 ? "" : std::strerror(errno);
}

Status check_readable(const std::string& path, std::string_view expected) {
  const std::string why = why_unreadable(path);
  if (why.empty()) return Done{};
  return Error::at(path, fmt::format("{}, expected {}", why, expected));
}

Result<std::string> read_file(const std::string& path, std::string_view expected) {
  RETURN_IF_ERROR(check_readable(path, expected));
  std::string text;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  bool failed = file == nullptr;
  char buffer[1 << 16];
  for (std::size_t got = 1; !failed && got > 0;) {
    got = std::fread(buffer, 1, sizeof buffer, file);
    text.append(buffer, got);
    failed = std::ferror(file) != 0;
  }
  const int why = errno;
  if (file != nullptr) std::fclose(file);
  if (failed) return Error::at(path, fmt::format("cannot be read: {}", std::strerror(why)));
  return text;
}

Result<FileWriter> FileWriter::open(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return cannot_write(path, EISDIR);
  const auto writer_of = [&](int file, const std::string& target,
                             const std::string& temporary) -> Result<FileWriter> {
    std::FILE* const opened = file < 0 ? nullptr : ::fdopen(file, "wb");
    if (opened == nullptr) return cannot_write(path, errno);
    return FileWriter(target, temporary, opened);
  };
  if (is_device(path)) return writer_of(::open(path.c_str(), O_WRONLY | O_CLOEXEC), path, path);
  const std::string target = resolve_links(path);
  if (target.empty()) return cannot_write(path, ELOOP);
  const std::string temporary = fmt::format("{}.{}.tmp", target, getpid());
  return writer_of(open_replacement(target, temporary), target, temporary);
}

FileWriter::FileWriter(std::string path, std::string temporary, std::FILE* file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, nullptr)),
      failed_(other.failed_) {}

FileWriter::~FileWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  discard();
}

void FileWriter::discard() {
  if (temporary_ != path_) std::remove(temporary_.c_str());
}

void FileWriter::note_failure(bool written) {
  if (!written && failed_ == 0) failed_ = errno;
}

void FileWriter::write(std::string_view text) {
  note_failure(std::fwrite(text.data(), 1, text.size(), file_) == text.size());
}

void FileWriter::sync() {
  note_failure(std::fflush(file_) == 0);
  ::fsync(fileno(file_));
}

Status FileWriter::commit() {
  note_failure(std::fflush(file_) == 0);
  if (failed_ == 0 && is_nameless(file_)) note_failure(give_name(file_, temporary_));
  note_failure(std::fclose(std::exchange(file_, nullptr)) == 0);
  if (failed_ == 0 && temporary_ != path_)
    note_failure(std::rename(temporary_.c_str(), path_.c_str()) == 0);
  if (failed_ == 0) return Done{};
  discard();
  return cannot_write(path_, failed_);
}

Status write_file(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(path));
  file.write(text);
  return file.commit();
}

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // a pipe that does not block is full
      constexpr useconds_t kUntilNextTry = 1000;
      usleep(kUntilNextTry);
      continue;
    }
    if (written <= 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Status check_writable(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  const bool is_other = std::filesystem::exists(status) && std::filesystem::is_other(status);
  if (path.empty() || is_other) return Done{};
  const auto writer = FileWriter::open(path);
  if (!writer.ok()) return writer.error();
  return Done{};
}

}  // namespace tandem
