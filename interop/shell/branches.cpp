// Follows if, elif, else and case with a stack of those that are open. In
//   if A; then x; elif B; then y; else z; fi
// x is taken if A holds or is not known, y if A does not certainly hold and B holds or is not
// known, and z if neither certainly holds.
#include "interop/shell/branches.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "interop/document/fields.h"

namespace tandem {
namespace {

bool is_integer(const std::string& word) {
  return !word.empty() && word.size() < 12 &&
         word.find_first_not_of("0123456789", word[0] == '-' ? 1 : 0) == std::string::npos;
}

// Compares as "[ a = b ]" does, or as "[[ a = b* ]]" with its pattern on the right (`by_pattern`).
std::optional<bool> compared(const std::string& left, const std::string& sign,
                             const std::string& right, bool by_pattern) {
  if (sign == "=" || sign == "==" || sign == "!=") {
    // Sets of characters and single ones are not read.
    if (by_pattern && right.find_first_of("?[(") != std::string::npos) return std::nullopt;
    return (by_pattern ? matches_glob(left, right) : left == right) == (sign != "!=");
  }
  if (!is_integer(left) || !is_integer(right)) return std::nullopt;
  const long long a = std::atoll(left.c_str()), b = std::atoll(right.c_str());
  if (sign == "-eq") return a == b;
  if (sign == "-ne") return a != b;
  if (sign == "-gt") return a > b;
  if (sign == "-ge") return a >= b;
  if (sign == "-lt") return a < b;
  if (sign == "-le") return a <= b;
  return std::nullopt;
}

// Takes variables without a value, "${A}" and "${A[0]}", out of a word. Returns false for a word
// whose value is another one, such as "${A%.*}" or "$(date)".
bool take_unset(std::string* word, bool* unset) {
  if (word->find("$(") != std::string::npos) return false;
  for (std::size_t at; (at = word->find("${")) != std::string::npos;) {
    const std::size_t close = word->find('}', at);
    std::string name = word->substr(at + 2, close - at - 2);
    if (name.ends_with(']')) name.resize(std::min(name.find('['), name.size()));
    const bool is_plain =
        std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (close == std::string::npos || !is_plain) return false;
    *unset = true;
    word->erase(at, close + 1 - at);
  }
  return true;
}

}  // namespace

void ShellBranches::open(std::optional<bool> condition, bool is_certain) {
  const bool outer = active();
  frames_.push_back({outer, outer && condition.value_or(true), condition.value_or(false)});
  frames_.back().certain = condition.has_value() && is_certain;
}

void ShellBranches::next(std::optional<bool> condition, bool is_certain) {
  if (frames_.empty()) return;
  Frame& frame = frames_.back();
  frame.active = frame.outer && !frame.decided && condition.value_or(true);
  frame.certain = frame.certain && condition.has_value() && is_certain;
  frame.decided = frame.decided || condition.value_or(false);
}

void ShellBranches::otherwise() {
  if (!frames_.empty()) frames_.back().active = frames_.back().outer && !frames_.back().decided;
}

void ShellBranches::close() {
  if (!frames_.empty()) frames_.pop_back();
}

bool ShellBranches::are_certain_inside(std::size_t depth) const {
  return std::all_of(frames_.begin() + static_cast<std::ptrdiff_t>(std::min(depth, frames_.size())),
                     frames_.end(), [](const Frame& frame) { return frame.certain; });
}

void ShellBranches::skip_inside(std::size_t depth) {
  for (; depth < frames_.size(); ++depth) frames_[depth].outer = frames_[depth].active = false;
}

void ShellBranches::open_case(const std::string& word, bool is_certain) {
  const bool outer = active();
  frames_.push_back({.outer = outer,
                     .active = false,
                     .decided = false,
                     .is_case = true,
                     .in_patterns = true,
                     .word = word,
                     .certain = is_certain});
}

void ShellBranches::pattern(const std::string& glob, bool is_last) {
  Frame& frame = frames_.back();
  frame.matches = frame.matches || matches_glob(frame.word, glob);
  if (!is_last) return;
  const bool is_known = frame.word.find('$') == std::string::npos;
  next(is_known ? std::optional(frame.matches) : std::nullopt);
  frame.matches = frame.in_patterns = false;
}

void ShellBranches::next_patterns() {
  if (frames_.empty() || !frames_.back().is_case) return;
  frames_.back().in_patterns = true;
  frames_.back().active = false;
}

std::optional<bool> shell_condition(std::vector<std::string> words, bool* unset) {
  const bool opposite = !words.empty() && words[0] == "!";
  if (opposite) words.erase(words.begin());
  if (words.empty()) return std::nullopt;
  const std::string last = words[0] == "[" ? "]" : words[0] == "[[" ? "]]" : "";
  if (last.empty() && words[0] != "test") return std::nullopt;
  if (!last.empty() && words.back() != last) return std::nullopt;
  if (!last.empty()) words.pop_back();
  words.erase(words.begin());
  for (std::string& word : words) {
    if (!take_unset(&word, unset)) return std::nullopt;
  }
  const bool negated = !words.empty() && words[0] == "!";
  if (negated) words.erase(words.begin());
  std::optional<bool> result;
  if (words.size() == 2 && words[0] == "-z") result = words[1].empty();
  if (words.size() == 2 && words[0] == "-n") result = !words[1].empty();
  // One word alone holds if it is not empty. An empty variable without quotes is no word, which
  // leaves -z or -n alone. Bash takes "[ -n ]" as true; here it does what its writer meant.
  if (words.size() == 1) result = words[0] == "-z" || (words[0] != "-n" && !words[0].empty());
  if (words.size() == 3) result = compared(words[0], words[1], words[2], last == "]]");
  if (result && negated != opposite) result = !*result;
  return result;
}

}  // namespace tandem
