#include "planning/tune/own_plan.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planning/tune/space.h"
#include "scenarios/fields.h"

namespace tandem {
namespace {

// Whether a search sets the key in each plan, or plans do not have it. Of train.zero, to which
// other keys are tied, the scenario's stage stays.
bool is_of_plan(const std::string& key) {
  static const std::vector<std::string> chosen = Space::own_keys();
  return key != "train.zero" &&
         (is_cleared_by_search(key) || std::ranges::find(chosen, key) != chosen.end());
}

Setting number_setting(std::int64_t value) { return {value, ""}; }

}  // namespace

bool is_cleared_by_search(std::string_view key) {
  constexpr std::string_view kCleared[] = {"overlap.batch_p2p", "parallel.layers_per_stage",
                                           "parallel.layout", "schedule.group",
                                           "schedule.memory_limit"};
  return std::ranges::find(kCleared, key) != std::end(kCleared) || key.starts_with("overlap.gemm");
}

Result<Scenario> with_another_plan(const ScenarioFile& file, const RunSettings& run) {
  const auto stated = run.settings.find("cluster.gpus");
  const auto* gpus =
      stated == run.settings.end() ? nullptr : std::get_if<std::int64_t>(&stated->second.value);
  if (gpus == nullptr || *gpus < 1)
    return Error::at(file.path, "found no cluster.gpus, expected the GPUs of all plans");
  // Values that mean nothing are no plan: nothing stands in their place.
  Scenario tried;
  for (const Field& field : fields()) {
    const auto setting = run.settings.find(field.key);
    if (setting != run.settings.end()) RETURN_IF_ERROR(field.set(setting->second, &tried));
  }
  RunSettings other = run;
  std::erase_if(other.settings, [](const auto& setting) { return is_of_plan(setting.first); });
  Result<Scenario> made = Error{""};
  // Tries few ranks of a replica first.
  for (std::int64_t replica = 1; replica <= *gpus; ++replica) {
    for (std::int64_t tp = 1; *gpus % replica == 0 && tp <= replica; ++tp) {
      if (replica % tp != 0) continue;
      other.settings["parallel.tp"] = number_setting(tp);
      other.settings["parallel.pp"] = number_setting(replica / tp);
      other.settings["train.sequence_parallel"] = {tp > 1, ""};
      made = make_scenario(file, other);
      if (!made.ok()) continue;
      made->places.clear();
      for (const auto& [key, setting] : run.settings) made->places[key] = setting.where;
      return made;
    }
  }
  return made;
}

Result<RunToTune> run_to_tune(const ScenarioFile& file,
                              const std::vector<std::pair<std::string, Setting>>& sets,
                              const std::string& only, std::string_view by) {
  const auto scenarios = load_scenarios(file, sets, only);
  if (scenarios.ok()) {
    ASSIGN_OR_RETURN(Scenario scenario, only_run(*scenarios, file.path, by));
    return RunToTune{std::move(scenario), {}};
  }
  const Error& refused = scenarios.error();
  if (refused.place.keys.empty()) return refused;
  ASSIGN_OR_RETURN(const std::vector<RunSettings> runs, runs_of(file, sets, only));
  if (runs.size() != 1) return refused;
  Result<Scenario> other = with_another_plan(file, runs.front());
  if (!other.ok()) return refused;
  return RunToTune{*std::move(other), refused.text()};
}

}  // namespace tandem
