// Reads a large JSON file piece by piece (zlib, also where it is not compressed). It holds one
// value at a time, and finds the value's end by counting brackets outside of strings.
#include "traces/profile/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/file.h"

#include <zlib.h>

namespace tandem {
namespace {

constexpr std::size_t kRead = 1 << 20;           // bytes read at once
constexpr std::size_t kLongestValue = 1u << 30;  // bytes of one row or member

constexpr bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Characters that end a run of plain ones outside of strings.
constexpr std::array<bool, 256> kStructure = [] {
  std::array<bool, 256> table{};
  for (const char c : {'{', '}', '[', ']', '"', ','}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

// Finds where a value ends while its text arrives in pieces.
class ValueEnd {
 public:
  // Goes on from where it stopped. Returns true once the value ends, at length().
  bool look(std::string_view text) {
    while (at_ < text.size()) {
      if (in_string_ ? end_string(text) : step(text)) return true;
    }
    return false;
  }
  std::size_t length() const { return at_; }

 private:
  // Goes on to the end of the string. Returns whether the value ends with it.
  bool end_string(std::string_view text) {
    const char* const end = text.data() + text.size();
    const char* at = text.data() + at_;
    if (escaped_) {
      escaped_ = false;
      ++at;
    }
    while (at < end && *at != '"' && *at != '\\') ++at;
    at_ = static_cast<std::size_t>(at - text.data());
    if (at == end) return false;
    ++at_;
    if (*at == '\\') {
      escaped_ = true;
      return false;
    }
    in_string_ = false;
    return depth_ == 0;
  }

  // Goes on by one character that is not in a string. Inside of brackets it skips plain ones first.
  // Returns whether the value ends there: behind its closing bracket, or, of a number or word such
  // as null, before the character that follows.
  bool step(std::string_view text) {
    if (depth_ > 0) {
      while (at_ < text.size() && !kStructure[static_cast<unsigned char>(text[at_])]) ++at_;
      if (at_ == text.size()) return false;
    }
    const char c = text[at_];
    if (c == '"') {
      if (depth_ == 0 && at_ > 0) return true;
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (depth_ == 0) return true;
      if (--depth_ == 0) {
        ++at_;
        return true;
      }
    } else if (depth_ == 0 && (c == ',' || c == ':' || is_blank(c))) {
      return true;
    }
    ++at_;
    return false;
  }

  std::size_t at_ = 0;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

std::string shown(char c) { return c == 0 ? "the end of the file" : fmt::format("'{}'", c); }

}  // namespace

struct JsonRows::File {
  explicit File(gzFile opened) : file(opened) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { gzclose(file); }

  gzFile file;
};

Result<JsonRows> JsonRows::open(const std::string& path) {
  RETURN_IF_ERROR(check_readable(path, "a profile: JSON of torch.profiler, plain or gzip"));
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return Error::at(path, "cannot be opened, expected a readable file");
  gzbuffer(file, 1 << 18);
  return JsonRows(path, std::make_unique<File>(file));
}

// Keeps what is not yet taken and reads more behind it. Returns false at the file's end.
Result<bool> JsonRows::fill() {
  line_ += static_cast<std::size_t>(
      std::count(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), '\n'));
  if (end_ > begin_) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ > kLongestValue)
    return error("a value of more than 1 GiB", "rows of a profile, which are short");
  buffer_.resize(std::max(buffer_.size(), end_ + kRead + kPadding));
  const int read = gzread(file_->file, buffer_.data() + end_, kRead);
  int code = Z_OK;
  const char* const why = gzerror(file_->file, &code);
  if (read < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (code == Z_BUF_ERROR) return error("gzip that ends early", "a whole file");
    return error(fmt::format("broken gzip ({})", code == Z_ERRNO ? std::strerror(errno) : why),
                 "a whole file");
  }
  end_ += static_cast<std::size_t>(read);
  std::memset(buffer_.data() + end_, 0, kPadding);
  return read > 0;
}

JsonRows::JsonRows(std::string path, std::unique_ptr<File> file)
    : path_(std::move(path)), file_(std::move(file)) {}
JsonRows::JsonRows(JsonRows&&) noexcept = default;
JsonRows::~JsonRows() = default;

Error JsonRows::error(std::string_view found, std::string_view expected) const {
  const auto line =
      line_ + static_cast<std::size_t>(std::count(
                  buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), '\n'));
  return Error::at(fmt::format("{}:{}", path_, line),
                   fmt::format("found {}, expected {}", found, expected));
}

Result<char> JsonRows::peek() {
  for (;;) {
    while (begin_ < end_ && is_blank(buffer_[begin_])) ++begin_;
    if (begin_ < end_) return buffer_[begin_];
    ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) return '\0';
  }
}

Result<std::string_view> JsonRows::peek_value() {
  ASSIGN_OR_RETURN(const char first, peek());
  if (first == 0) return error("the end of the file", "the rest of its JSON");
  ValueEnd end;
  while (!end.look({buffer_.data() + begin_, end_ - begin_})) {
    ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) return error("a value that the file's end cuts off", "the rest of its JSON");
  }
  if (end.length() == 0) return error(shown(first), "a value");
  return std::string_view(buffer_.data() + begin_, end.length());
}

Result<bool> JsonRows::read_elements(char close, std::string_view what,
                                     const std::function<Status()>& each) {
  ++begin_;
  ASSIGN_OR_RETURN(char separator, peek());
  const bool any = separator != close;
  while (separator != close) {
    RETURN_IF_ERROR(each());
    ASSIGN_OR_RETURN(separator, peek());
    if (separator != ',' && separator != close)
      return error(shown(separator), fmt::format("',' or '{}' after {}", close, what));
    if (separator == ',') ++begin_;
  }
  ++begin_;
  return any;
}

Status JsonRows::read_rows(const Row& row) {
  ASSIGN_OR_RETURN(const char first, peek());
  if (first != '[') return error(shown(first), "'[' before the rows");
  RETURN_IF_ERROR(read_elements(']', "a row", [&]() -> Status {
    ASSIGN_OR_RETURN(const std::string_view text, peek_value());
    if (text.front() != '{') return error(shown(text.front()), "'{', a row of a profile");
    if (const Status read = row(text); !read.ok())
      return read.error().place.source.empty() ? error(read.error().message, "a row of a profile")
                                               : read.error();
    begin_ += text.size();
    return Done{};
  }));
  return Done{};
}

Status JsonRows::read_member(std::string_view rows, const Member& member, const Row& row) {
  ASSIGN_OR_RETURN(const std::string_view quoted, peek_value());
  if (!quoted.starts_with('"')) return error(shown(quoted.front()), "a member's name");
  const std::string key(quoted.substr(1, quoted.size() - 2));
  begin_ += quoted.size();
  ASSIGN_OR_RETURN(const char colon, peek());
  if (colon != ':') return error(shown(colon), "':' after a member's name");
  ++begin_;
  if (key == rows) return read_rows(row);
  ASSIGN_OR_RETURN(const std::string_view text, peek_value());
  RETURN_IF_ERROR(member(key, text));
  begin_ += text.size();
  return Done{};
}

// Skips the mark that some editors put before UTF-8.
Status JsonRows::skip_byte_order_mark() {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  while (end_ - begin_ < kMark.size()) {
    ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) return Done{};
  }
  if (std::string_view(buffer_.data() + begin_, kMark.size()) == kMark) begin_ += kMark.size();
  return Done{};
}

Status JsonRows::read(std::string_view rows, const Member& member, const Row& row) {
  RETURN_IF_ERROR(skip_byte_order_mark());
  ASSIGN_OR_RETURN(const char first, peek());
  if (first == '[') return read_rows(row);
  if (first != '{')
    return error(first == 0 ? "an empty file" : shown(first),
                 "'{', the JSON of a torch.profiler trace");
  ASSIGN_OR_RETURN(const bool any,
                   read_elements('}', "a member", [&] { return read_member(rows, member, row); }));
  if (!any) return Done{};
  ASSIGN_OR_RETURN(const char rest, peek());
  if (rest != 0) return error(shown(rest), "nothing behind the JSON");
  return Done{};
}

}  // namespace tandem
