// Auto order: in what order each rank acts where schedule.order is "auto".
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// The scenario with an order in the place of "auto", and with the stages a rank that it needs where
// parallel.vpp is not set. Of the named orders that fit into each GPU's memory (if none does, of
// all) and of those that a search makes for the stages' costs it is the one with the shortest
// iteration, played in full on the ideal engine. An Error where no order can be played.
Result<Scenario> with_order(const Scenario& scenario);

}  // namespace tandem
