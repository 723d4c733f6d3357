// Reads files, and writes them so that they appear whole or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// Returns why a path cannot be read as a file: "no such file", "is a directory", "Permission
// denied". Returns "" if it can. A pipe or a device cannot: it may never end, and cannot be read a
// second time.
std::string why_unreadable(const std::string& path);

// Returns the Error "path: why, expected ..." if the path cannot be read.
Status check_readable(const std::string& path, std::string_view expected);

Result<std::string> read_file(const std::string& path,
                              std::string_view expected = "a readable file");

// Writes a new file beside the target and renames it at commit(); without a commit nothing remains.
// A symbolic link is followed to the file that it leads to. A file that was there before keeps its
// mode. Pipes and devices are written to directly.
class FileWriter {
 public:
  static Result<FileWriter> open(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();

  void write(std::string_view text);
  // Forces the text written so far to the disk, so that after commit() the file survives a loss of
  // power. Failures show at commit().
  void sync();
  // Returns an Error if a write failed (a full disk, say) or the rename did.
  Status commit();

 private:
  FileWriter(std::string path, std::string temporary, std::FILE* file);
  void discard();
  void note_failure(bool written);

  std::string path_;       // symbolic links resolved
  std::string temporary_;  // the file written to; for a pipe or a device path_ itself
  std::FILE* file_;
  int failed_ = 0;  // errno of the first failed write, or 0
};

Status write_file(const std::string& path, std::string_view text);

// Writes to a file descriptor. Returns 0, or errno if not everything was written.
int write_all(int file, std::string_view text);

// Returns an Error if no file can be written there, so that a command can ask before its long work.
// Leaves nothing behind. Accepts an empty path, a pipe or a device without looking at it.
Status check_writable(const std::string& path);

}  // namespace tandem
