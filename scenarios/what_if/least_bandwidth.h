// The least bandwidth between nodes that a run can do with.
#pragma once

#include <optional>

#include "scenarios/run/play_job.h"

namespace tandem {

// The scenario's job on the ideal engine, without jitter.
Result<MeasuredJob> play_ideal(const Scenario& scenario);

// Gbit/s a node (all its NICs) at which exposed communication between nodes is 5 % of the
// iteration, to within 2 % of that share, on the ideal engine; where the share jumps there, the
// least bandwidth above the jump, to within 2 %. 0: 1 Gbit/s is already enough, so nothing crosses
// nodes or it is all hidden. Nothing: not even 100 Tbit/s is. `played`: what play_ideal() gave for
// the scenario.
std::optional<double> least_internode_Gbitps(const Scenario& scenario, MeasuredJob played);

}  // namespace tandem
