// Plugins: shared libraries opened on demand, so that the program starts where what they need is
// missing, and at once.
#pragma once

#include <string>

#include "base/result.h"

namespace tandem {

// Finds a plugin's file: in the folder that TANDEM_PLUGINS names by an absolute path, beside the
// program (or the library that this code is in), in lib/tandem beside its folder, or in the folder
// above; nowhere else. Error::Missing where it is in none of them.
Result<std::string> plugin_path(const std::string& plugin);

// The address of a symbol of a plugin in one of these folders. Error::Missing with the loader's
// words.
// `global`: what it loads is seen by libraries loaded later (MPI's own plugins need that).
Result<void*> plugin_symbol(const std::string& plugin, const std::string& symbol,
                            bool global = false);

}  // namespace tandem
