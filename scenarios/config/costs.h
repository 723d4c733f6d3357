// Costs: what a scenario leaves open of what its actions are priced by, made whole.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// An Error where the keys of costs.source do not go together.
Status complete_costs(Scenario* scenario);

// The software that the cluster's GPU is measured with, where none is named, and its calibration.
Status complete_framework_profile(Scenario* scenario);

// Whether runs of its software on its GPU in its precision were measured, and its interval: asked
// again where the precision is another one than was read. REQUIRES: costs of the model.
Status complete_calibration(Scenario* scenario);

}  // namespace tandem
