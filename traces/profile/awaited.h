// What compute waits for, in profiles that tell it: those that Tandem wrote.
#pragma once

#include <vector>

#include "traces/profile/profile_metrics.h"

namespace tandem {

// By label of `split.comms` the exposed communication of a rank as a trace's metrics have it
// (traces/metrics.h): an instant of the step in which nothing computes belongs to the communication
// in flight that the next kernel of compute waits for, directly or through others, of several to
// the last to end; behind the last one to all. What is in flight beside that is bubble.
//
// REQUIRES: the rank tells waits.
std::vector<Nanoseconds> awaited_of(const ProfileRank& rank, const ProfileSplit& split,
                                    Nanoseconds step_begin_ns, Nanoseconds step_end_ns);

}  // namespace tandem
