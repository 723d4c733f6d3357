// Plugins: shared libraries opened on demand, so that the program starts where what they need is
// missing, and at once.
#pragma once

#include <string>

#include "base/result.h"

namespace tandem {

// The address of a plugin's symbol. The plugin is looked for in the folder that TANDEM_PLUGINS
// names by an absolute path, beside the program (or the library that this code is in), in
// lib/tandem beside its folder, and in the folder above; nowhere else. Error::Missing with the
// loader's words.
// `global`: what it loads is seen by libraries loaded later (MPI's own plugins need that).
Result<void*> plugin_symbol(const std::string& plugin, const std::string& symbol,
                            bool global = false);

}  // namespace tandem
