// Perturb: what the scenario makes slower than it is, in a Program and while it is played.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "sim/engines.h"
#include "topology/cluster.h"

namespace tandem {

// Whole stages, and kinds of communication, before prices.
void slow_parts(const VariabilitySettings& variability, Program* program);

// Ranks of their own, after prices. Gives whether any differ from their equals: then the Program
// does not fold.
bool slow_stragglers(const VariabilitySettings& variability, const Cluster& cluster,
                     const Placement& placement, Program* program);

// What the engine is told of jitter and slow links. `folds`: whether the Program does. Error: slow
// links, which the ideal engine does not know or the cluster does not have.
Result<SimOptions> sim_options(const VariabilitySettings& variability, const Cluster& cluster,
                               bool folds, Engine engine);

}  // namespace tandem
