#include "cli/command_line/files.h"

#include <algorithm>
#include <filesystem>

#include "base/data_dir.h"
#include "scenarios/setting.h"

namespace tandem {
namespace {

// Adds the files that come with tandem: presets, GPUs, framework profiles.
void add_own_files(std::vector<NamedFile>* inputs) {
  for (const char* folder : {"/topology/presets", "/workload/frameworks"}) {
    std::error_code missing;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(data_dir() + folder, missing))
      inputs->push_back({"tandem's own", entry.path().string()});
  }
}

}  // namespace

Status check_files(const std::string& input, const std::vector<std::string>& sets,
                   const std::vector<NamedFile>& outputs, std::vector<NamedFile> inputs) {
  const bool writes = std::ranges::any_of(outputs, [](const auto& o) { return !o.path.empty(); });
  if (!writes) return Done{};
  inputs.push_back({"the input", scenario_path(input)});
  // A scenario or setting with a fault is passed over: the command will report it.
  if (!input.ends_with(".csv")) {
    const auto file = read_scenario_file(input);
    const auto parsed = parse_sets(sets);
    if (file.ok() && parsed.ok()) {
      for (NamedFile& named : files_named(*file, *parsed)) inputs.push_back(std::move(named));
    }
  }
  add_own_files(&inputs);
  return check_outputs(outputs, inputs);
}

}  // namespace tandem
