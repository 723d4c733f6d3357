// Start barrier: the processes of a run begin an iteration at one instant.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"

namespace tandem {

// Waits until rank 0's clock shows the instant that rank 0 names once all ranks are there.
// `ahead_ns`: this rank's clock against rank 0's. All ranks call it.
Status wait_for_start(Control* control, Nanoseconds ahead_ns);

}  // namespace tandem
