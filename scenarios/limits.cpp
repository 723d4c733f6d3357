#include "scenarios/limits.h"

#include <fmt/format.h>

#include <string>

namespace tandem {
namespace {

// Returns the number that the setting holds, or `otherwise` if it holds none.
double limit_of(const Setting& setting, double otherwise) {
  if (const auto* integer = std::get_if<std::int64_t>(&setting.value))
    return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&setting.value);
  return real != nullptr ? *real : otherwise;
}

}  // namespace

Status check_runs(const ScenarioFile& file,
                  const std::vector<std::pair<std::string, Setting>>& sets) {
  double limit = Limits{}.runs;
  constexpr const char* kKey = "limits.runs";
  if (const auto found = file.base.find(kKey); found != file.base.end())
    limit = limit_of(found->second, limit);
  for (const auto& [key, setting] : sets) {
    if (key == kKey) limit = limit_of(setting, limit);
  }
  double runs = 1;
  std::string axes;
  for (const Axis& axis : file.axes) {
    runs *= static_cast<double>(axis.points.size());
    axes += fmt::format("{}{} of {}", axes.empty() ? "" : " x ", axis.points.size(), axis.name);
  }
  if (runs <= limit) return Done{};
  return Error::at(
      file.path,
      fmt::format(
          "found {:.16g} runs, {}, expected at most {} = {:.16g}; --set {}={:.16g} allows them",
          runs, axes, kKey, limit, kKey, runs));
}

}  // namespace tandem
