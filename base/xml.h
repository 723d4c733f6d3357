// Texts of users where XML is written, which SVG is, or one line.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// As it stands between tags and in attributes; control characters become blanks, and what is not
// UTF-8, or no character of XML, becomes U+FFFD.
std::string xml_escaped(std::string_view text);

// The first `most` bytes and ".." where a text is longer, UTF-8's continuation bytes kept together.
std::string shortened(std::string_view text, std::size_t most);

// One line that no terminal takes for a command: control characters, marks that nobody sees but
// that end a line or turn the text round, and bytes that are not UTF-8, as they are escaped in C
// ("\\n", "\\x1b").
std::string printable(std::string_view text);

// Shortens a text that may be of any length, such as a name or what an error found in a file, for
// showing it: of more than 2000 bytes it keeps the beginning and the end, 2000 in all.
std::string kept_short(std::string_view text);

// With blanks for line ends and other control characters.
std::string one_line(std::string_view text);

}  // namespace tandem
