// Files that appear whole or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// Why a path cannot be read as a file: "no such file", "is a directory", "Permission denied";
// empty: it can. A pipe or a device cannot: it may never end, and is not there a second time.
std::string why_unreadable(const std::string& path);

// The Error "path: why, expected ...".
Status check_readable(const std::string& path, std::string_view expected);

Result<std::string> read_file(const std::string& path,
                              std::string_view expected = "a readable file");

// Writes beside the target and renames at commit(); what was not committed is removed. Of a
// symbolic link the target is what it leads to; a file that was there keeps its mode. Pipes and
// devices are written to directly.
class FileWriter {
 public:
  static Result<FileWriter> open(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();

  void write(std::string_view text);
  // What was written is on the disk: after a commit the file survives a loss of power. Failures
  // show at commit().
  void sync();
  // Error where a write failed (a full disk, say) or the rename did.
  Status commit();

 private:
  FileWriter(std::string path, std::string temporary, std::FILE* file);
  void discard();
  void note(bool written);

  std::string path_;       // behind symbolic links
  std::string temporary_;  // written to; path_ itself for a pipe or a device
  std::FILE* file_;
  int failed_ = 0;  // errno of the first write that did
};

Status write_file(const std::string& path, std::string_view text);

// Whether a file can be written there, before the work that fills it. Nothing is left. An empty
// path, a pipe or a device: not looked at.
Status check_writable(const std::string& path);

}  // namespace tandem
