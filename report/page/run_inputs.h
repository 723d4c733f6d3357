// RunInputs: what a live page needs of a run to simulate it again: its settings, and the texts of
// the files that they name.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns {name, axes, points, settings, sets, notes, files}. `sets`: those of the settings that
// the command line gave. Files of other tools are left out, as the
// settings have what they gave. `files` has texts by name; the settings name them without their
// folders. Errors: two files of one name; more than 4 MB of files.
Result<nlohmann::ordered_json> run_inputs(const Scenario& scenario);

}  // namespace tandem
