// JsonRows reads a JSON file that is too large to hold, plain or gzip, one value after another.
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
  // This many bytes can be read behind each value's text.
  static constexpr std::size_t kPadding = 64;

  // Called with a value's text, which is valid until it returns. An Error that it returns ends the
  // reading. If it names no file, its message is what was found, such as "a kernel without its time
  // (ts)": read() then adds the line, and that a row of a profile was expected.
  using Row = std::function<Status(std::string_view)>;
  using Member = std::function<Status(std::string_view key, std::string_view)>;

  // Returns Error::Missing in a build without zlib.
  static Result<JsonRows> open(const std::string& path);
  JsonRows(JsonRows&&) noexcept;
  JsonRows& operator=(JsonRows&&) = delete;
  ~JsonRows();

  // Reads the file's object: calls `row` for each element of its array named `rows`, and `member`
  // for each other member. A file that is an array is read as the rows. Errors name the line, also
  // where the file of a killed job ends early.
  Status read(std::string_view rows, const Member& member, const Row& row);

 private:
  struct File;  // zlib's
  JsonRows(std::string path, std::unique_ptr<File> file);

  Result<bool> fill();
  Status skip_byte_order_mark();
  // These skip blanks, then return what follows without taking it. A character of 0: file's end.
  Result<char> peek();
  Result<std::string_view> peek_value();
  // Calls each(), which takes an element, for all elements up to the bracket `close`. Returns
  // whether there are any.
  Result<bool> read_elements(char close, std::string_view what,
                             const std::function<Status()>& each);
  Status read_rows(const Row& row);
  Status read_member(std::string_view rows, const Member& member, const Row& row);
  Error error(std::string_view found, std::string_view expected) const;

  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the part of buffer_ that is read and not yet taken
  std::size_t line_ = 1;             // where buffer_ begins
};

}  // namespace tandem
