// The manual page and the completions for shells, generated from the commands and their options.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tandem {

// Returns the kinds that shell_file() makes: "man", "bash", "zsh", "fish".
std::vector<std::string> shell_file_kinds();

// Returns the text of a shell file. REQUIRES: a kind of shell_file_kinds().
std::string shell_file(const CLI::App& app, const std::string& kind);

}  // namespace tandem
