// JsonRows: a JSON file too large to hold, plain or gzip, one value after another.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

class JsonRows {
 public:
  // So many bytes can be read behind each value's text.
  static constexpr std::size_t kPadding = 64;

  // A value's text, which is gone with the next one. What its check says ends the reading.
  using Row = std::function<Status(std::string_view)>;
  using Member = std::function<Status(std::string_view key, std::string_view)>;

  // Error::Missing in a build without zlib.
  static Result<JsonRows> open(const std::string& path);
  JsonRows(JsonRows&&) noexcept;
  JsonRows& operator=(JsonRows&&) = delete;
  ~JsonRows();

  // Reads the file's object: `row` for each element of its array of that name, `member` for each
  // other member. An array in the object's place is that of rows. Errors name the line, and say
  // where the file ends early, as that of a killed job does.
  Status read(std::string_view rows, const Member& member, const Row& row);

 private:
  struct File;  // of zlib
  JsonRows(std::string path, std::unique_ptr<File> file);

  Result<bool> fill();
  Result<char> next();  // past blanks, not taken; 0 at the file's end
  Result<std::string_view> value();
  Status expect(char c, std::string_view where);
  Status read_rows(const Row& row);
  Error error(std::string_view found, std::string_view expected) const;

  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what is read and not yet taken
  std::size_t line_ = 1;             // that buffer_ begins on
};

}  // namespace tandem
