// The parts of a list in a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// "a,,b" -> "a", "", "b". What stands at the very end ends the last part: "a," -> "a"; "" -> none.
// REQUIRES: between not empty.
std::vector<std::string> split(std::string_view text, std::string_view between);

// The words of a text, between blanks, tabs and ends of lines: " a\tb " -> "a", "b".
std::vector<std::string> split_words(std::string_view text);

}  // namespace tandem
