// Start barrier: lets the processes of a run begin an iteration at the same moment.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"

namespace tandem {

// Waits until rank 0's clock shows a time that rank 0 names once all ranks are there. `ahead_ns`:
// how far this rank's clock is ahead of rank 0's. All ranks must call it.
Status wait_for_start(Control* control, Nanoseconds ahead_ns);

}  // namespace tandem
