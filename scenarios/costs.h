// Costs: completes and checks the settings of [costs].
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Checks the keys of costs.source and fills in those that follow from others. Error: keys that do
// not go together.
Status complete_costs(Scenario* scenario);

// Loads the framework profile of the cluster's GPU if costs.software names none; then does
// complete_calibration().
Status complete_framework_profile(Scenario* scenario);

// Whether keys of the scenario change the preset's GPU into one that nobody has measured.
bool has_own_gpu(const Scenario& scenario);

// Whether the plan multiplies in mxfp8 and the GPU, a known one, has no tensor cores for it. Costs
// of no GPU lack nothing.
bool lacks_recipe(const Scenario& scenario, const Plan& plan);

// Sets CostSettings::calibrated and `interval` (evidence.h). Call it again when the plan has
// changed. REQUIRES: costs.source is not uniform.
Status complete_calibration(Scenario* scenario);

}  // namespace tandem
