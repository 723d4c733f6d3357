// LeastBandwidth: finds the least bandwidth between nodes at which communication costs little.
#pragma once

#include <optional>

#include "planning/play/play_job.h"

namespace tandem {

// Returns the bandwidth of a node (all its NICs), in Gbit/s, at which exposed communication between
// nodes is 5 % of the iteration, on the ideal engine; the share is met to within 2 %. If the share
// jumps there, it returns the least bandwidth above the jump, to within 2 %. Returns 0 if 1 Gbit/s
// is already enough, because nothing crosses nodes or all of it is hidden. Returns nothing if not
// even 100 Tbit/s is enough. `played`: the result of play_ideal() for the scenario.
std::optional<double> least_internode_Gbitps(const Scenario& scenario, MeasuredJob played);

}  // namespace tandem
