// OwnPlan: a scenario whose own plan is refused, with another plan in its place, from which a
// search can begin.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Whether no plan of a search has this key of a scenario. ZeRO's groups, which plans have unless
// they are named, do not count.
bool is_cleared_by_search(std::string_view key);

// Returns the run without the keys that a search chooses, with tensor and pipeline ranks that the
// rules allow. Its places are those of all its keys. Errors: a value of a wrong type or range; no
// such ranks keep the rules; the run does not state its GPUs.
Result<Scenario> with_another_plan(const ScenarioFile& file, const RunSettings& run);

struct RunToTune {
  Scenario scenario;
  std::string own_refused;  // why simulate refuses the run's own plan; the scenario has another one
};

// Returns the file's only run, to search plans for. If simulate refuses its own plan, and a search
// finds other sizes, the scenario has another plan. Errors: as only_run() and load_scenarios().
Result<RunToTune> run_to_tune(const ScenarioFile& file,
                              const std::vector<std::pair<std::string, Setting>>& sets,
                              const std::string& only, std::string_view by = "--only");

}  // namespace tandem
