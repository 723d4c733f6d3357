// Texts of users where XML is written, which SVG is, or one line.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// As it stands between tags and in attributes; control characters become blanks.
std::string xml_escaped(std::string_view text);

// The first `most` bytes and ".." where a text is longer, UTF-8's continuation bytes kept together.
std::string shortened(std::string_view text, std::size_t most);

// With blanks for line ends and other control characters.
std::string one_line(std::string_view text);

}  // namespace tandem
