#include "base/own_folder.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace tandem {

std::string own_folder() {
  Dl_info info;
  link_map* map = nullptr;
  std::error_code failed;
  // The link map's entry for the program itself has an empty name.
  const bool found = ::dladdr1(reinterpret_cast<const void*>(&own_folder), &info,
                               reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  if (found && map != nullptr && map->l_name != nullptr && *map->l_name != '\0')
    return std::filesystem::absolute(map->l_name, failed).parent_path().string();
  return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path().string();
}

}  // namespace tandem
