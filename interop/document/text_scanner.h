// TextScanner: goes through a short expression from left to right, skipping blanks.
#pragma once

#include <cctype>
#include <string_view>

namespace tandem {

class TextScanner {
 public:
  explicit TextScanner(std::string_view rest) : rest_(rest) {}

  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }
  // Returns whether `c` stands here, and if so moves past it.
  bool next(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool next(std::string_view sign) {
    skip_blanks();
    if (!rest_.starts_with(sign)) return false;
    rest_.remove_prefix(sign.size());
    return true;
  }
  // Returns the letters, digits and underscores that stand here, and moves past them; empty:
  // something else stands here.
  std::string_view word() {
    skip_blanks();
    std::size_t size = 0;
    while (size < rest_.size() && (is_of(std::isalnum, rest_[size]) || rest_[size] == '_')) ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }

 private:
  static bool is_of(int (*kind)(int), char c) { return kind(static_cast<unsigned char>(c)) != 0; }
  void skip_blanks() {
    while (!rest_.empty() && is_of(std::isspace, rest_[0])) rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

// Returns the number that a word of at most 12 digits is; -1: it is none.
inline long long digits_of(std::string_view word) {
  if (word.empty() || word.size() > 12) return -1;
  long long value = 0;
  for (const char c : word) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace tandem
