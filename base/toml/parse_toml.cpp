// Counts how deep a text is nested before the library parses it, and gives the library's faults as
// Errors with their line.
#include "base/toml/parse_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tandem {
namespace {

constexpr int kMostDepth = 200;

// Scans a text once and counts how deep each byte is nested: the 1 in `a.b.c = [[1]]` is 4 deep, by
// 2 dots and 2 brackets. The library limits brackets alone. A text that is not TOML gets some depth
// too, and is left to the library to refuse.
class DepthScan {
 public:
  explicit DepthScan(std::string_view text) : text_(text) {}

  // Returns the first line that is too deep, or 0.
  int line_too_deep() {
    while (at_ < text_.size()) {
      take();
      if (level_ + dots_ > kMostDepth) return line_;
    }
    return 0;
  }

 private:
  void take() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return skip_text(c);
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    ++at_;
    if (c == '.') ++dots_;
    if (c == ',') dots_ = 0;  // the next key of an inline table
    if (c == '=') in_value_ = true;
    if (c == '\n') end_line();
    if (c == '[' || c == '{') open();
    if (c == ']' || c == '}') close();
  }

  void end_line() {
    ++line_;
    dots_ = 0;
    if (!outer_levels_.empty()) return;  // the value's brackets go on
    level_ = header_;
    in_value_ = false;
  }

  void open() {
    if (in_value_) {
      outer_levels_.push_back(level_);
      level_ += dots_ + 1;
    } else {
      level_ = 0;  // a [header] begins at the root
    }
    dots_ = 0;
  }

  void close() {
    if (!outer_levels_.empty()) {
      level_ = outer_levels_.back();
      outer_levels_.pop_back();
      dots_ = 0;
    } else if (!in_value_) {
      header_ = dots_ + 1;  // keys below [a.b] are 2 deep
    }
  }

  // Skips a text in quotes. A text between single marks ends on its line; one between triple marks
  // may span lines.
  void skip_text(char quote) {
    const std::string three(3, quote);
    const bool long_one = text_.substr(at_).starts_with(three);
    at_ += long_one ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') {
        if (!long_one) return;  // never closed
        ++line_;
      }
      if (quote == '"' && text_[at_] == '\\') {
        at_ += at_ + 1 < text_.size() && text_[at_ + 1] != '\n' ? 1 : 0;
      } else if (text_.substr(at_).starts_with(long_one ? three : three.substr(2))) {
        break;
      }
    }
    // Up to two quotes may stand before the three that close the text.
    const std::size_t most = std::min(at_ + (long_one ? 5 : 1), text_.size());
    while (at_ < most && text_[at_] == quote) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int header_ = 0;                 // depth of the last [header]
  int level_ = 0;                  // depth around the current key or value
  int dots_ = 0;                   // in the current key, or in a number
  std::vector<int> outer_levels_;  // for each open bracket of a value, the depth around it
  bool in_value_ = false;          // behind the = of a line's key
};

}  // namespace

Result<toml::table> parse_toml_table(std::string_view text, const std::string& path) {
  if (const int line = DepthScan(text).line_too_deep(); line > 0)
    return Error::at(
        fmt::format("{}:{}", path, line),
        fmt::format("found tables and lists nested more than {} deep, expected at most {}",
                    kMostDepth, kMostDepth));
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Error::at(
        fmt::format("{}:{}", path, error.source().begin.line),
        fmt::format("found text that is not TOML ({}), expected TOML", error.description()));
  }
}

}  // namespace tandem
