// The least bandwidth between nodes that a run can do with.
#pragma once

#include <optional>

#include "scenarios/run/run.h"

namespace tandem {

// Gbit/s a node (all its NICs) at which exposed communication between nodes is 5 % of the
// iteration, to within 2 %, on the ideal engine. 0: 1 Gbit/s is already enough, so nothing crosses
// nodes or it is all hidden. Nothing: not even 100 Tbit/s is. `played`: the scenario's job, or one
// of fewer microbatches, as it was played; its prices change.
std::optional<double> least_internode_Gbitps(const Scenario& scenario, CompiledJob* played);

}  // namespace tandem
