#include "base/xml.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem {
namespace {

// The characters of UTF-8 with first bytes `from` to `to`: their size, and the range of their
// second byte (RFC 3629, section 4). The narrower ranges keep out encodings longer than needed,
// halves of UTF-16 pairs, and values above the last character.
struct Utf8Row {
  unsigned from, to;
  std::size_t size;
  unsigned least, most;
};
constexpr Utf8Row kUtf8Rows[] = {{0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF},
                                 {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F},
                                 {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF},
                                 {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F}};

// Returns the size of the UTF-8 character that `text` begins with, or 0 if it begins with none.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  for (const Utf8Row& row : kUtf8Rows) {
    if (first < row.from || first > row.to) continue;
    if (byte(1) < row.least || byte(1) > row.most) return 0;
    for (std::size_t i = 2; i < row.size; ++i) {
      if ((byte(i) & 0xC0U) != 0x80U) return 0;
    }
    return row.size;
  }
  return 0;
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;  // C1
}

// Returns whether a character is invisible and ends a line or paragraph of Unicode, or changes the
// text's direction.
bool is_hidden_mark(std::string_view character) {
  if (character == "\xD8\x9C") return true;  // U+061C
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  if (second == 0x80) return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
  return second == 0x81 && third >= 0xA6 && third <= 0xA9;  // U+2066 to U+2069
}

// Calls character(text) for each character, and stray(byte) for each byte that belongs to none.
template <class Character, class Stray>
void each_character(std::string_view text, const Character& character, const Stray& stray) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0)
      stray(text[0]);
    else
      character(text.substr(0, size));
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
}

// Returns `at`, or the beginning of the UTF-8 character that it lies inside of.
std::size_t begin_of_character(std::string_view text, std::size_t at) {
  constexpr std::size_t kMostBehind = 3;  // bytes of a character after its first
  const std::size_t least = at - std::min(at, kMostBehind);
  while (at > least && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::string escaped(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    if (byte == '\n')
      out += "\\n";
    else if (byte == '\r')
      out += "\\r";
    else if (byte == '\t')
      out += "\\t";
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return out;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  each_character(
      text,
      [&](std::string_view character) {
        if (character == "&")
          out += "&amp;";
        else if (character == "<")
          out += "&lt;";
        else if (character == ">")
          out += "&gt;";
        else if (character == "\"")
          out += "&quot;";
        else if (is_control(character))
          out += ' ';
        else if (character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF")  // not in XML
          out += kReplacement;
        else
          out += character;
      },
      [&](char) { out += kReplacement; });
  return out;
}

std::string printable(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; }))
    return std::string(text);
  std::string out;
  each_character(
      text,
      [&](std::string_view character) {
        out += is_control(character) || is_hidden_mark(character) ? escaped(character)
                                                                  : std::string(character);
      },
      [&](char byte) {
        out += escaped({&byte, 1});
      });
  return out;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  return std::string(text.substr(0, begin_of_character(text, most))) + "..";
}

std::string kept_short(std::string_view text) {
  constexpr std::string_view kLeftOut = " [...] ";
  constexpr std::size_t kMost = 2000, kEnd = 400, kBegin = kMost - kEnd - kLeftOut.size();
  if (text.size() <= kMost) return std::string(text);
  // Begins 3 bytes later, as begin_of_character() goes back by 3 at most and kEnd is the limit.
  const std::size_t end = begin_of_character(text, text.size() - kEnd + 3);
  return fmt::format("{}{}{}", text.substr(0, begin_of_character(text, kBegin)), kLeftOut,
                     text.substr(end));
}

}  // namespace tandem
