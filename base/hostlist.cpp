#include "base/hostlist.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>
#include <set>

namespace tandem {
namespace {

constexpr std::size_t kMostHosts = 1'000'000;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::optional<long> number_in(std::string_view text) {
  long number = 0;
  if (text.empty() || text.size() > 12) return std::nullopt;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || !is_digit(text[0]))
    return std::nullopt;
  return number;
}

// The parts of a list, which commas outside brackets part.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += static_cast<int>(c == '[') - static_cast<int>(c == ']');
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

// "0-3,12" as the texts "0" to "3" and "12"; an empty list: it is none.
std::vector<std::string> numbers_of(std::string_view ranges) {
  std::vector<std::string> numbers;
  for (const std::string_view range : parts_of(ranges)) {
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const auto first = number_in(low);
    const auto last = dash == range.npos ? first : number_in(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= static_cast<long>(kMostHosts))
      return {};
    for (long i = *first; i <= *last; ++i) numbers.push_back(fmt::format("{:0{}}", i, low.size()));
  }
  return numbers;
}

Error malformed(std::string_view part, std::string_view expected) {
  return Error{fmt::format("found '{}' among host names, expected {}", part, expected)};
}

// A part's names: what is before the bracket, each number in it, each ending of the rest.
Result<std::vector<std::string>> names_of(std::string_view part) {
  const std::size_t open = part.find_first_of("[]");
  if (open == part.npos) return std::vector{std::string(part)};
  const std::size_t close = part.find_first_of("[]", open + 1);
  if (part[open] != '[' || close == part.npos || part[close] != ']')
    return malformed(part, "each [ closed by a ]");
  const std::vector<std::string> numbers = numbers_of(part.substr(open + 1, close - open - 1));
  if (numbers.empty()) return malformed(part, "numbers and rising ranges in brackets, as [0-3,12]");
  ASSIGN_OR_RETURN(const std::vector<std::string> endings, names_of(part.substr(close + 1)));
  if (numbers.size() * endings.size() > kMostHosts) return malformed(part, "a million at most");
  std::vector<std::string> names;
  for (const std::string& number : numbers) {
    for (const std::string& ending : endings)
      names.push_back(std::string(part.substr(0, open)) + number + ending);
  }
  return names;
}

// A name as what is before its last number, the number, and what is behind it.
struct NumberedName {
  std::string_view before, number, behind;

  bool goes_before(const NumberedName& next) const {
    const auto here = number_in(number), there = number_in(next.number);
    return here && there && *there == *here + 1 && before == next.before && behind == next.behind &&
           (number.size() == next.number.size() || (number[0] != '0' && next.number[0] != '0'));
  }
};

NumberedName numbered_name(std::string_view name) {
  const std::size_t stem = std::min(name.size(), name.find('.'));
  std::size_t end = stem;
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

}  // namespace

Result<std::vector<std::string>> parse_hostlist(std::string_view text) {
  std::vector<std::string> names;
  std::set<std::string, std::less<>> known;
  for (std::string_view part : parts_of(text)) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (part.empty()) return malformed(text, "a name between commas");
    if (part.find_first_of(" \t\"'") != part.npos)
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
    const NumberedName first = numbered_name(names[i]);
    // All that share what stands round the number, as ranges.
    std::string ranges;
    std::size_t parts = 0;
    NumberedName last = first;
    std::size_t next = i;
    while (next < names.size()) {
      const NumberedName begin = numbered_name(names[next]);
      if (begin.number.empty() || begin.before != first.before || begin.behind != first.behind)
        break;
      last = begin;
      std::size_t end = next + 1;
      while (end < names.size() && last.goes_before(numbered_name(names[end])))
        last = numbered_name(names[end++]);
      ranges += parts++ == 0 ? "" : ",";
      ranges += begin.number;
      if (end - next > 1) ranges += fmt::format("-{}", last.number);
      next = end;
    }
    if (i > 0) text += ',';
    if (next <= i + 1) {
      text += names[i++];
      continue;
    }
    text += fmt::format("{}[{}]{}", first.before, ranges, first.behind);
    i = next;
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
  return a < b;  // n01 and n1 are two names
}

}  // namespace tandem
