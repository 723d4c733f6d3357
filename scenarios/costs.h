// Costs: completes what a scenario leaves open about the prices of its ops.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Checks the keys of costs.source and fills in those that follow from others. Error: keys that do
// not go together.
Status complete_costs(Scenario* scenario);

// Loads the software that the cluster's GPU was measured with, where costs.software names none;
// then complete_calibration().
Status complete_framework_profile(Scenario* scenario);

// Says whether the scenario makes its GPU another than the preset's, which nobody has measured.
bool has_own_gpu(const Scenario& scenario);

// Sets whether this software was measured on this GPU in this precision, and the interval of its
// predictions. Call it again when the precision has changed. REQUIRES: costs.source is not uniform.
Status complete_calibration(Scenario* scenario);

}  // namespace tandem
