#include "base/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/own_folder.h"

namespace tandem {

namespace fs = std::filesystem;

namespace {

// Returns the folders to search. A plugin is never opened by its bare name: the loader would look
// that up in LD_LIBRARY_PATH, where an empty entry means the working folder.
Result<std::vector<fs::path>> plugin_folders() {
  const fs::path here = own_folder();
  const char* named = std::getenv("TANDEM_PLUGINS");
  std::vector<fs::path> folders;
  if (named != nullptr && *named != 0) folders.emplace_back(named);
  if (!folders.empty() && !folders.front().is_absolute())
    return Error{fmt::format("TANDEM_PLUGINS: found {}, expected an absolute path", named),
                 Error::Missing};
  if (!here.empty()) folders.insert(folders.end(), {here, here / "../lib/tandem", here / ".."});
  return folders;
}

}  // namespace

Result<std::string> plugin_path(const std::string& plugin) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> folders, plugin_folders());
  for (const fs::path& folder : folders) {
    std::error_code unreadable;
    if (fs::exists(folder / plugin, unreadable)) return (folder / plugin).string();
  }
  return Error{fmt::format("found no {}, expected it beside the program", plugin), Error::Missing};
}

Result<void*> plugin_symbol(const std::string& plugin, const std::string& symbol, bool global) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> folders, plugin_folders());
  std::string why;
  for (const fs::path& folder : folders) {
    const fs::path path = folder / plugin;
    void* library = dlopen(path.c_str(), RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == nullptr) {
      if (why.empty() || fs::exists(path)) why = dlerror();
      continue;
    }
    if (void* address = dlsym(library, symbol.c_str())) return address;
    why = dlerror();
  }
  return Error{why, Error::Missing};
}

}  // namespace tandem
