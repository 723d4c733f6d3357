// Aligns the clocks of a profile's ranks, and finds which rank waited for which, by collectives
// that they have in common.
#pragma once

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Aligns clocks. A collective of two ranks or more ends on all of them at about the same time. So
// the difference of two clocks is the median difference of the ends of all collectives that the
// one rank has and the other is the first of; without any, it is as their transfers allow, none of
// which is received before it is sent. From the first rank on, each rank that is connected with a
// known one gets its shift, which is kept as clock_shift_ns. Ranks without a connection begin a new
// clock_set. Two kernels are one collective if they have the same process group and ranks, and the
// same sequence number (or place in the group's order, where no number is given). A send and its
// receive are one if sender, receiver and place in their order agree. Broadcasts do not count:
// their ends differ.
//
// Then sets transfer_start_ns of each communication that all ranks of its group have to the start
// of the last one. Kernels without collectives' arguments stay as they are; transfers whose other
// end is not found are noted. An Error if nothing aligns ranks and hours are between them.
Status align(Profile* profile);

}  // namespace tandem
