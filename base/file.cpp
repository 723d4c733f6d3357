#include "base/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tandem {
namespace {

// Where the file is written until it is whole: beside it; itself, if it is a pipe or a device,
// which must not be replaced (/dev/null).
std::string temporary_of(const std::string& path) {
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  using std::filesystem::file_type;
  if (type == file_type::fifo || type == file_type::character || type == file_type::socket ||
      type == file_type::block)
    return path;
  return fmt::format("{}.{}.tmp", path, getpid());
}

Error cannot_write(const std::string& path) {
  return Error{fmt::format("{}: cannot be written: {}", path, std::strerror(errno))};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown))
    return Error{fmt::format("{}: no such file, expected a readable file", path)};
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Error{fmt::format("{}: cannot be read: {}", path, std::strerror(errno))};
  return text.str();
}

Result<FileWriter> FileWriter::open(const std::string& path) {
  std::string temporary = temporary_of(path);
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return cannot_write(path);
  return FileWriter(path, std::move(temporary), file);
}

FileWriter::FileWriter(std::string path, std::string temporary, std::FILE* file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, nullptr)) {}

FileWriter::~FileWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  discard();
}

void FileWriter::discard() {
  if (temporary_ != path_) std::remove(temporary_.c_str());
}

void FileWriter::write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file_);  // failures stay in ferror, see commit
}

void FileWriter::sync() {
  if (std::fflush(file_) == 0) ::fsync(fileno(file_));
}

Status FileWriter::commit() {
  const bool written = std::ferror(file_) == 0 && std::fflush(file_) == 0;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (written && closed &&
      (temporary_ == path_ || std::rename(temporary_.c_str(), path_.c_str()) == 0))
    return Done{};
  const Error error = cannot_write(path_);
  discard();
  return error;
}

Status write_file(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(path));
  file.write(text);
  return file.commit();
}

Status check_writable(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (path.empty() || (std::filesystem::exists(status) && std::filesystem::is_other(status)))
    return Done{};
  const auto writer = FileWriter::open(path);
  if (!writer.ok()) return writer.error();
  return Done{};
}

}  // namespace tandem
