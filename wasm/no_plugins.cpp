// Takes the place of base/own_folder.cpp and base/plugin.cpp in a browser, where no shared library
// can be opened.
#include "base/own_folder.h"
#include "base/plugin.h"

namespace tandem {

std::string own_folder() { return ""; }

Result<std::string> plugin_path(const std::string& plugin) {
  return Error{"found no " + plugin + ": a page has no plugins, expected --engine ideal",
               Error::Missing};
}

Result<void*> plugin_symbol(const std::string& plugin, const std::string& /*symbol*/,
                            bool /*global*/) {
  return plugin_path(plugin).error();
}

}  // namespace tandem
