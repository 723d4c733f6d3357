// Collects the files that the settings of a run name, and drops the keys that a page cannot use.
#include "report/page/run_inputs.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/units.h"
#include "scenarios/routing_file.h"
#include "scenarios/setting_json.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr double kMostMB = 4;

// The files of one run, by the names that they have in a page, which has no folders.
class CarriedFiles {
 public:
  Status add(const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    const auto [held, is_new] = paths_.try_emplace(name, path);
    if (!is_new && held->second == path) return Done{};
    if (!is_new)
      return Error{
          fmt::format("--live: found the files {} and {}, expected files of different "
                      "names: a page has no folders",
                      held->second, path)};
    ASSIGN_OR_RETURN(std::string text, read_file(path));
    bytes_ += text.size();
    if (static_cast<double>(bytes_) > kMostMB * MB)
      return Error{
          fmt::format("--live: found {:.1f} MB of files that the scenario names, expected "
                      "at most {:g} MB",
                      static_cast<double>(bytes_) / MB, kMostMB)};
    texts_[name] = std::move(text);
    return Done{};
  }

  const nlohmann::ordered_json& texts() const { return texts_; }

 private:
  std::map<std::string, std::string> paths_;
  nlohmann::ordered_json texts_ = nlohmann::ordered_json::object();
  std::size_t bytes_ = 0;
};

}  // namespace

Result<nlohmann::ordered_json> run_inputs(const Scenario& scenario) {
  Settings settings = scenario.settings;
  for (const char* imported : {"model.from", "parallel.from", "cluster.from"})
    settings.erase(imported);
  settings.erase("report.baseline");  // another run of the file
  Settings sets;
  for (const auto& [key, setting] : settings) {
    if (setting.where == "--set") sets[key] = setting;
  }
  CarriedFiles files;
  const ScenarioFile this_run{.path = scenario.path, .base = settings};
  for (const NamedFile& file : files_named(this_run, /*sets=*/{})) {
    const bool routing = file.name == "model.routing";
    for (const std::string& path : routing ? routing_files(file.path) : std::vector{file.path})
      RETURN_IF_ERROR(files.add(path));
    settings[file.name].value = fs::path(file.path).filename().string();
  }
  return nlohmann::ordered_json{{"name", scenario.name},     {"axes", scenario.axes},
                                {"points", scenario.points}, {"settings", to_json(settings)},
                                {"sets", to_json(sets)},     {"notes", scenario.notes},
                                {"files", files.texts()}};
}

}  // namespace tandem
