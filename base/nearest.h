// Finds the nearest known name, for error messages about unknown ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Returns the name of least edit distance (Levenshtein 1966), the first of equals. REQUIRES: names
// not empty.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace tandem
