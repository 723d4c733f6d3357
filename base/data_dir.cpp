#include "base/data_dir.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace tandem {

std::string data_dir() {
  if (const char* set = std::getenv("TANDEM_DATA_DIR"); set != nullptr && *set != '\0') return set;
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* relative : {"../share/tandem", "../..", "../../.."}) {
    const fs::path folder = (program / relative).lexically_normal();
    if (!program.empty() && fs::is_directory(folder / "topology/presets", failed)) return folder;
  }
  return TANDEM_SOURCE_DIR;
}

}  // namespace tandem
