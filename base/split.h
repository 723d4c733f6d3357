// Splits a text into parts or words, and writes it in lower case.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// "a,,b" gives "a", "", "b". A separator at the very end starts no new part: "a," gives "a", and ""
// gives none. REQUIRES: between not empty.
std::vector<std::string> split(std::string_view text, std::string_view between);

// Splits at blanks, tabs and line ends: " a\tb " gives "a", "b".
std::vector<std::string> split_words(std::string_view text);

// Returns the text with A to Z as a to z.
std::string lower_case(std::string_view text);

}  // namespace tandem
