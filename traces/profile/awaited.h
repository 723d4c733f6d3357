// Finds what compute waits for, in profiles that record it: those that Tandem wrote.
#pragma once

#include <vector>

#include "traces/profile/profile_metrics.h"

namespace tandem {

// Returns a rank's exposed communication, by label of `split.comms`, as a trace's metrics have it
// (traces/metrics.h). An instant of the step in which nothing computes belongs to a communication
// in flight that the next kernel of compute waits for, directly or through others; after the last
// kernel, to any in flight. If there are several, it belongs to the one that ends last. Other
// instants are bubble, whatever is in flight.
//
// REQUIRES: rank.tells_waits.
std::vector<Nanoseconds> awaited_of(const ProfileRank& rank, const ProfileSplit& split,
                                    Nanoseconds step_begin_ns, Nanoseconds step_end_ns);

}  // namespace tandem
