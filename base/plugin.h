// Plugins: shared libraries opened on demand. The program starts quickly, and even where their own
// libraries are missing.
#pragma once

#include <string>

#include "base/result.h"

namespace tandem {

// Finds a plugin's file. Looks in the folder that TANDEM_PLUGINS names by an absolute path, beside
// the program (or the library that holds this code), in lib/tandem beside that folder, and in the
// folder above; nowhere else. Error::Missing if none of them has it.
Result<std::string> plugin_path(const std::string& plugin);

// Returns the address of a symbol of a plugin, searched in the same folders. Error::Missing gives
// the loader's words. `global` lets libraries loaded later see the plugin's symbols, which MPI's
// own plugins need.
Result<void*> plugin_symbol(const std::string& plugin, const std::string& symbol,
                            bool global = false);

}  // namespace tandem
