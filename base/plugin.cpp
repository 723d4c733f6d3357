#include "base/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/data_dir.h"

namespace tandem {

Result<void*> plugin_symbol(const std::string& plugin, const std::string& symbol, bool global) {
  const std::filesystem::path here = own_folder();
  const char* first = std::getenv("TANDEM_PLUGINS");
  std::string why;
  for (const std::string& path :
       {((first == nullptr ? here : first) / plugin).string(), (here / plugin).string(),
        (here / "../lib/tandem" / plugin).string(), (here / ".." / plugin).string(), plugin}) {
    void* library = dlopen(path.c_str(), RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == nullptr) {
      if (why.empty() || std::filesystem::exists(path)) why = dlerror();
      continue;
    }
    if (void* address = dlsym(library, symbol.c_str())) return address;
    why = dlerror();
  }
  return Error{why, Error::Missing};
}

}  // namespace tandem
