// Expands hostlists: "r[1-2]n[08-09],s1" is r1n08, r1n09, r2n08, r2n09 and s1. Shortens lists of
// names: n1, n2, n4, s1 is "n[1-2,4],s1".
#include "base/hostlist.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>
#include <set>

#include "base/xml.h"

namespace tandem {
namespace {

constexpr std::size_t kMostHosts = 1'000'000;
constexpr std::size_t kLongestName = 253;  // DNS allows no longer one
constexpr std::size_t kMostDigits = 12;
constexpr std::size_t kShown = 80;  // characters of a wrong part that an error shows

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::optional<long> number_in(std::string_view text) {
  long number = 0;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || !is_digit(text[0]))
    return std::nullopt;
  return number;
}

// Splits a list at the commas outside brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool is_end = i == text.size();
    if (!is_end) depth += static_cast<int>(text[i] == '[') - static_cast<int>(text[i] == ']');
    const bool ends_part = is_end || (text[i] == ',' && depth <= 0);
    if (!ends_part) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

// Turns "0-3,12" into the texts "0" to "3" and "12". Returns nothing if it is no such list.
std::vector<std::string> numbers_of(std::string_view ranges) {
  std::vector<std::string> numbers;
  for (const std::string_view range : parts_of(ranges)) {
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const auto first = number_in(low);
    const auto last = dash == range.npos ? first : number_in(range.substr(dash + 1));
    const bool rises = first && last && *first <= *last;
    if (!rises || *last - *first >= static_cast<long>(kMostHosts)) return {};
    for (long i = *first; i <= *last; ++i) numbers.push_back(fmt::format("{:0{}}", i, low.size()));
    if (numbers.size() > kMostHosts) break;  // already too many, whatever follows
  }
  return numbers;
}

Error malformed(std::string_view part, std::string_view expected) {
  return Error{
      fmt::format("found '{}' among host names, expected {}", shortened(part, kShown), expected)};
}

// Returns the names that a part stands for: one for each number in its first bracket, combined with
// each of the next, and so on.
Result<std::vector<std::string>> names_of(std::string_view part) {
  std::vector<std::string> names(1);
  for (std::string_view left = part; !left.empty();) {
    const std::size_t open = std::min(left.find_first_of("[]"), left.size());
    for (std::string& name : names) name += left.substr(0, open);
    if (names.front().size() > kLongestName)
      return malformed(part, fmt::format("names of at most {} characters", kLongestName));
    left.remove_prefix(open);
    if (left.empty()) break;
    const std::size_t close = left.find_first_of("[]", 1);
    if (left[0] != '[' || close == left.npos || left[close] != ']')
      return malformed(part, "each [ closed by a ]");
    const std::vector<std::string> numbers = numbers_of(left.substr(1, close - 1));
    if (numbers.empty())
      return malformed(part, "numbers and rising ranges in brackets, as [0-3,12]");
    if (names.size() * numbers.size() > kMostHosts) return malformed(part, "a million at most");
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    left.remove_prefix(close + 1);
  }
  return names;
}

// A name, split at its last number before the first dot: n12-ib.site is "n", "12", "-ib.site".
struct NumberedName {
  std::string_view before, number, behind;

  // Returns whether `next` continues a range: it differs only in the number, which is one higher
  // and written alike. n9 and n10 do, n09 and n10 do, n009 and n10 do not.
  bool is_followed_by(const NumberedName& next) const {
    if (before != next.before || behind != next.behind) return false;
    const auto here = number_in(number), there = number_in(next.number);
    if (!here || !there || *there != *here + 1) return false;
    const bool no_leading_zeros = number[0] != '0' && next.number[0] != '0';
    return number.size() == next.number.size() || no_leading_zeros;
  }
};

NumberedName numbered_name(std::string_view name) {
  const std::size_t stem = std::min(name.size(), name.find('.'));
  std::size_t end = stem;
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  // Longer digit runs (serial numbers, MAC addresses) are part of the text, not a number to count.
  if (end - begin > kMostDigits) begin = end;
  return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

// Names that differ only in their numbers: the numbers as ranges, "1-2,4", and the place of the
// first name behind them.
struct HostRanges {
  std::string numbers;
  std::size_t end = 0;
};

HostRanges ranges_from(const std::vector<std::string>& names, std::size_t begin) {
  const NumberedName first = numbered_name(names[begin]);
  HostRanges ranges{"", begin};
  while (ranges.end < names.size()) {
    NumberedName last = numbered_name(names[ranges.end]);
    const bool fits = last.before == first.before && last.behind == first.behind;
    if (last.number.empty() || !fits) break;
    ranges.numbers += fmt::format("{}{}", ranges.numbers.empty() ? "" : ",", last.number);
    const std::size_t range_begin = ranges.end++;
    while (ranges.end < names.size() && last.is_followed_by(numbered_name(names[ranges.end])))
      last = numbered_name(names[ranges.end++]);
    if (ranges.end - range_begin > 1) ranges.numbers += fmt::format("-{}", last.number);
  }
  return ranges;
}

}  // namespace

Result<std::vector<std::string>> parse_hostlist(std::string_view text) {
  std::vector<std::string> names;
  std::set<std::string, std::less<>> known;
  for (std::string_view part : parts_of(text)) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (part.empty()) return malformed(text, "a name between commas");
    if (part.find_first_of(" \t\r\n\"'") != part.npos)
      return malformed(part, "names without blanks and quotes");
    ASSIGN_OR_RETURN(const std::vector<std::string> some, names_of(part));
    if (names.size() + some.size() > kMostHosts) return malformed(part, "a million at most");
    for (const std::string& name : some) {
      if (!known.insert(name).second) return malformed(name, "each name once");
      names.push_back(name);
    }
  }
  return names;
}

std::string hostlist_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size();) {
    const HostRanges ranges = ranges_from(names, i);
    if (i > 0) text += ',';
    const bool has_bracket = ranges.end > i + 1;  // another name shares it
    if (has_bracket) {
      const NumberedName first = numbered_name(names[i]);
      text += fmt::format("{}[{}]{}", first.before, ranges.numbers, first.behind);
      i = ranges.end;
    } else {
      text += names[i++];
    }
  }
  return text;
}

bool in_natural_order(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    // Compares numbers by value: without leading zeros, the one with more digits is greater.
    const auto digits = [](std::string_view text, std::size_t at) {
      std::size_t end = at;
      while (end < text.size() && is_digit(text[end])) ++end;
      while (at + 1 < end && text[at] == '0') ++at;
      return text.substr(at, end - at);
    };
    const std::string_view left = digits(a, i), right = digits(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
    while (i < a.size() && is_digit(a[i])) ++i;
    while (j < b.size() && is_digit(b[j])) ++j;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal by value, such as n01 and n1
}

}  // namespace tandem
