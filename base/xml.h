// Makes texts of users safe to write into XML (and so SVG) or on one line of a terminal.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Escapes a text for use between tags and in attributes. Control characters become blanks. Bytes
// that are not UTF-8, and characters that XML does not have, become U+FFFD.
std::string xml_escaped(std::string_view text);

// Returns the first `most` bytes and ".." of a longer text, without splitting a character of UTF-8.
std::string shortened(std::string_view text, std::size_t most);

// Returns one line that no terminal takes for a command. Escapes as C does ("\\n", "\\x1b") control
// characters, bytes that are not UTF-8, and invisible marks that end a line or change a text's
// direction.
std::string printable(std::string_view text);

// Shortens a text of any length, such as a name or what an error found in a file, for showing it.
// Of more than 2000 bytes it keeps the beginning and the end, 2000 in all.
std::string kept_short(std::string_view text);

// Replaces line ends and other control characters by blanks.
std::string one_line(std::string_view text);

}  // namespace tandem
