// Parses TOML; no other file does.
#pragma once

#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "base/result.h"

namespace tandem {

// Returns an Error "path:line: ..." if the text is not TOML, or is nested more than 200 deep. Code
// that walks the tables, the library's own included, calls itself for each level and would overflow
// the stack.
Result<toml::table> parse_toml_table(std::string_view text, const std::string& path);

}  // namespace tandem
