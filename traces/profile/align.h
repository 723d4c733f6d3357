// Clocks of a profile's ranks, and which rank waited for which, from collectives that they have in
// common.
#pragma once

#include "traces/profile/profile.h"

namespace tandem {

// A collective of two ranks or more ends on all of them at about the same time. Of those that match
// (the same process group with the same ranks, and the sequence number, or where none is said the
// place in the group's order) the median difference of ends is taken as the difference of clocks,
// from the first rank on to all that it is connected with; it is then the rank's clock_shift_ns.
// Sends and broadcasts, which end apart, do not count.
//
// Then transfer_ns of a communication that all ranks of its group have is the last one's start. Of
// kernels without collectives' arguments nothing is known, and nothing moves.
void align(Profile* profile);

}  // namespace tandem
