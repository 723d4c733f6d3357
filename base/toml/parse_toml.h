// TOML, parsed in one place.
#pragma once

#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "base/result.h"

namespace tandem {

// An Error "path:line: ..." where the text is not TOML, or nests deeper than anybody writes: what
// walks the tables, the library's own included, calls itself for each level.
Result<toml::table> parse_toml_table(std::string_view text, const std::string& path);

}  // namespace tandem
