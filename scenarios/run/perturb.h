// Perturb: makes those parts slower that the scenario says, in a Program or while it is played.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "sim/engines.h"
#include "topology/cluster.h"

namespace tandem {

// Slows whole stages and kinds of communication. Call it before the Program is priced.
void slow_parts(const VariabilitySettings& variability, Program* program);

// Slows straggling ranks. Call it after the Program is priced. Returns whether any rank now differs
// from ranks of the same body: then the Program does not fold.
bool slow_stragglers(const VariabilitySettings& variability, const Cluster& cluster,
                     const Placement& placement, Program* program);

// Returns the engine's options for jitter and slow links. `folds`: whether the Program does. Error:
// slow links with the ideal engine, which does not know them, or slow links that the cluster does
// not have.
Result<SimOptions> sim_options(const VariabilitySettings& variability, const Cluster& cluster,
                               bool folds, Engine engine);

}  // namespace tandem
