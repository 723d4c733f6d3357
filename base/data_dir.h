// Where the files that are shipped as data are found.
#pragma once

#include <string>

namespace tandem {

// The folder that holds topology/presets and the other files shipped as data: $TANDEM_DATA_DIR,
// else share/tandem or the source tree around the program, else the source tree it was built from.
std::string data_dir();

}  // namespace tandem
