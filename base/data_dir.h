// Finds the files that are shipped as data.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Returns the folder that holds topology/presets and the other files shipped as data. It is the
// first of: $TANDEM_DATA_DIR; `data` beside the program or library; share/tandem or the source tree
// around it; the source tree that the program was built from.
std::string data_dir();

// Returns the names of the TOML files in a folder of data ("topology/presets"), sorted and without
// ".toml"; none if there is no such folder.
std::vector<std::string> data_names(const std::string& folder);

}  // namespace tandem
