// Auto order: finds the pipeline order if schedule.order is "auto".
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the scenario with an order in place of "auto", and with the number of stages on a rank
// that this order needs, unless parallel.vpp is set. Candidates are the named orders and orders
// that a search makes for the stages' costs. They are played in full on the ideal engine. Takes the
// one with the shortest iteration among those that fit into every GPU's memory, or among all if
// none fits. Error: no order can be played.
Result<Scenario> with_order(const Scenario& scenario);

}  // namespace tandem
