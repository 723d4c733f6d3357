#include "base/data_dir.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/own_folder.h"

namespace tandem {

std::string data_dir() {
  if (const char* set = std::getenv("TANDEM_DATA_DIR"); set != nullptr && *set != '\0') return set;
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path own = own_folder();
  for (const char* relative : {"data", "../share/tandem", "../..", "../../.."}) {
    const fs::path folder = (own / relative).lexically_normal();
    if (!own.empty() && fs::is_directory(folder / "topology/presets", failed)) return folder;
  }
  return TANDEM_SOURCE_DIR;
}

std::vector<std::string> data_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code missing;  // without the folder there are no names
  for (const auto& entry :
       std::filesystem::directory_iterator(data_dir() + '/' + folder, missing)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace tandem
