// Where the files that are shipped as data are found.
#pragma once

#include <string>

namespace tandem {

// The folder of the program that this code is in, or of the shared library, as Python opens one;
// empty: not known.
std::string own_folder();

// The folder that holds topology/presets and the other files shipped as data: $TANDEM_DATA_DIR,
// else `data` beside the program or library, share/tandem or the source tree around it, else the
// source tree it was built from.
std::string data_dir();

}  // namespace tandem
