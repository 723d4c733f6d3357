// Aligns the clocks of a profile's ranks, and finds which rank waited for which, by collectives
// that they have in common.
#pragma once

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Aligns clocks. From the first rank on, each rank that is connected with a known one gets a shift,
// which is kept as clock_shift_ns. Ranks without a connection begin a new clock_set. Connected are
// ranks that share a clock, which they keep, and the first rank of a collective or transfer with
// its others:
//   collectives  end on all of their ranks at about the same time, so clocks differ by the median
//                difference of ends. Broadcasts do not count: their ends differ
//   transfers    end on the receiver a little behind the sender: the middle of the median
//                differences of both ways
// Kernels are one collective if they have the same process group, ranks and sequence number (or
// place in the group's order, where no number is given). A send and its receive are one if sender,
// receiver and place in their order agree.
//
// Then sets transfer_start_ns of each communication that all ranks of its group have to the start
// of the last one. Kernels without collectives' arguments stay as they are; transfers whose other
// end is not found are noted. An Error if nothing aligns ranks and hours are between them.
Status align(Profile* profile);

}  // namespace tandem
