// Perturb: slows parts of a Program, as the scenario's variability settings say.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"

namespace tandem {

// Slows whole stages and kinds of communication. Call it before the Program is priced.
void slow_parts(const VariabilitySettings& variability, Program* program);

// Slows straggling ranks, except in stages that slow_parts() has slowed. Call it after the Program
// is priced. Returns whether ranks of the same body now differ: then the Program does not fold.
bool slow_stragglers(const VariabilitySettings& variability, const Cluster& cluster,
                     const Placement& placement, Program* program);

}  // namespace tandem
