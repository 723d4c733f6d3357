#include "base/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/data_dir.h"

namespace tandem {

// A name without a folder would be the loader's to find: in the working folder, where
// LD_LIBRARY_PATH has an empty entry.
Result<void*> plugin_symbol(const std::string& plugin, const std::string& symbol, bool global) {
  const std::filesystem::path here = own_folder();
  const char* named = std::getenv("TANDEM_PLUGINS");
  std::vector<std::filesystem::path> folders;
  if (named != nullptr && *named != 0) folders.emplace_back(named);
  if (!folders.empty() && !folders.front().is_absolute())
    return Error{fmt::format("TANDEM_PLUGINS: found {}, expected an absolute path", named),
                 Error::Missing};
  if (!here.empty()) folders.insert(folders.end(), {here, here / "../lib/tandem", here / ".."});
  std::string why;
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path path = folder / plugin;
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
