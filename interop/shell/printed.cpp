// Writes what echo and printf print. Declared in interop/shell/shell.h.
#include <algorithm>

#include "interop/shell/shell.h"

namespace tandem {
namespace {

// Returns what printf prints: the format with `words` for %s, %d and %i, repeated until no word is
// left; nothing: the format has other directives.
std::optional<std::string> formatted(const std::string& format,
                                     const std::vector<std::string>& words) {
  std::string text;
  std::size_t next = 0;
  do {
    const std::size_t before = next;
    for (std::size_t i = 0; i < format.size(); ++i) {
      const char c = format[i];
      const char then = i + 1 < format.size() ? format[i + 1] : '\0';
      if (c == '%' && (then == 's' || then == 'd' || then == 'i')) {
        text += next < words.size() ? words[next] : then == 's' ? "" : "0";
        ++next;
      } else if ((c == '%' && then == '%') || (c == '\\' && then == '\\')) {
        text += then;
      } else if (c == '\\' && (then == 'n' || then == 't')) {
        text += then == 'n' ? '\n' : '\t';
      } else if (c == '%' || c == '\\') {
        return std::nullopt;
      } else {
        text += c;
        continue;
      }
      ++i;
    }
    if (next == before) break;
  } while (next < words.size());
  return text;
}

}  // namespace

std::optional<std::string> printed_text(const std::vector<std::string>& words) {
  const auto is_open = [](const std::string& word) { return word.find('$') != std::string::npos; };
  if (words.empty() || std::ranges::any_of(words, is_open)) return std::nullopt;
  if (words[0] == "printf" && words.size() > 1)
    return formatted(words[1], {words.begin() + 2, words.end()});
  if (words[0] != "echo") return std::nullopt;
  std::string text;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (i == 1 && (words[i] == "-n" || words[i] == "-e")) continue;
    text += (text.empty() ? "" : " ") + words[i];
  }
  return text;
}

}  // namespace tandem
