// OwnPlan: a scenario whose own plan is refused, with another plan in its place, from which a
// search can begin.
#pragma once

#include <string_view>

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

}  // namespace tandem
