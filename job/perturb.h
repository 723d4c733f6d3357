// Perturb: slows parts of a Program, as the scenario's variability settings say.
#pragma once

#include "job/site.h"
#include "scenarios/scenario.h"
#include "schedule/order/order.h"
#include "schedule/program/program.h"

namespace tandem {

// Slows whole stages, in both chains of DualPipe, and kinds of communication. Call it before the
// Program is priced.
void slow_parts(const VariabilitySettings& variability, const Order& order, Program* program);

// Slows straggling ranks, except in stages that slow_parts() has slowed. Call it after the Program
// is priced. Returns whether ranks of the same body now differ: then the Program does not fold.
bool slow_stragglers(const VariabilitySettings& variability, const Order& order, const Site& site,
                     Program* program);

}  // namespace tandem
