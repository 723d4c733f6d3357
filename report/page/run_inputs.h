// RunInputs: a run's settings, and the texts of the files that they name. A live page simulates the
// run again from them.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns {name, axes, points, settings, sets, notes, files}. `sets`: those of the settings that
// the command line gave. `files`: texts by file name; the settings name them without their folders.
// Files of other tools (model.from, ...) are left out, as the settings have the keys that were read
// from them. Errors: two files of one name; more than 4 MB of files.
Result<nlohmann::ordered_json> run_inputs(const Scenario& scenario);

}  // namespace tandem
