#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/random.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 34> kTokens = {"0",
                                                      "-1",
                                                      "1",
                                                      "2147483648",
                                                      "9223372036854775807",
                                                      "-9223372036854775808",
                                                      "1e308",
                                                      "1e400",
                                                      "-0.0",
                                                      "nan",
                                                      "inf",
                                                      "0x10",
                                                      "1_000",
                                                      "\"",
                                                      "'",
                                                      "\n",
                                                      "\r\n",
                                                      "\t",
                                                      ",",
                                                      ";",
                                                      "=",
                                                      "#",
                                                      "[",
                                                      "]",
                                                      "{",
                                                      "}",
                                                      "[[a]]",
                                                      "true",
                                                      "\xff\xfe",
                                                      "\xc3",
                                                      "*",
                                                      "..",
                                                      "\x1b[31m",
                                                      std::string_view("\0", 1)};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, std::uint64_t key) : seeds_(seeds), key_(key) {}

  std::string text() {
    text_ = seeds_[below(seeds_.size())];
    const std::size_t changes = 1 + below(5);
    for (std::size_t i = 0; i < changes; ++i) change();
    return text_;
  }

 private:
  std::size_t below(std::size_t most) {
    return static_cast<std::size_t>(scatter(key_++) % std::max<std::size_t>(most, 1));
  }
  std::size_t place() { return below(text_.size() + 1); }

  void change() {
    switch (below(9)) {
      case 0:
        if (!text_.empty()) text_[below(text_.size())] ^= static_cast<char>(1u << below(8));
        return;
      case 1:
        text_.erase(place(), 1 + below(16));
        return;
      case 2:
        text_.insert(place(), kTokens[below(kTokens.size())]);
        return;
      case 3:
      case 4:
        return replace_number();
      case 5:
        return copy_line();
      case 6:
        return put_in(word_of(seeds_[below(seeds_.size())]));
      case 7:
        text_.resize(place());
        return;
      default:
        return move_piece();
    }
  }

  // One of the numbers becomes another.
  void replace_number() {
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto from =
        std::find_if(text_.begin() + static_cast<std::ptrdiff_t>(place()), text_.end(), is_digit);
    if (from == text_.end()) return;
    const auto to = std::find_if_not(from, text_.end(), is_digit);
    constexpr std::size_t kNumbers = 13;  // of the tokens
    const std::string instead =
        below(2) == 0 ? std::string(kTokens[below(kNumbers)]) : std::to_string(below(40));
    text_.replace(from, to, instead);
  }

  void copy_line() {
    const std::size_t begin = text_.rfind('\n', place()) + 1;  // npos + 1 is 0
    const std::size_t end = std::min(text_.find('\n', begin), text_.size() - 1);
    if (text_.empty() || end < begin) return;
    const std::string line = text_.substr(begin, end - begin + 1);
    text_.insert(text_.rfind('\n', place()) + 1, line);
  }

  void move_piece() {
    const std::size_t from = place(), length = below(64);
    const std::string piece = text_.substr(from, length);
    text_.erase(from, length);
    put_in(piece);
  }

  std::string word_of(const std::string& seed) {
    const std::size_t from = below(seed.size() + 1);
    return seed.substr(from, 1 + below(24));
  }
  void put_in(const std::string& piece) { text_.insert(place(), piece); }

  const std::vector<std::string>& seeds_;
  std::uint64_t key_;
  std::string text_;
};

}  // namespace

std::string mutated(const std::vector<std::string>& seeds, std::uint64_t key) {
  return Mutator(seeds, scatter(key)).text();
}

}  // namespace tandem
