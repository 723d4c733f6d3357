// Auto order: finds the order in which each rank acts where schedule.order is "auto".
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the scenario with an order in place of "auto", and with the number of stages on a rank
// that this order needs, unless parallel.vpp is set. Candidates are the named orders and those that
// a search makes for the stages' costs. The order is the one with the shortest iteration among
// those that fit into every GPU's memory, or among all if none fits; orders are played in full on
// the ideal engine. Error: no order can be played.
Result<Scenario> with_order(const Scenario& scenario);

}  // namespace tandem
