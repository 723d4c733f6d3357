// Begin: the processes of a run begin an iteration at one instant.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"

namespace tandem {

// Until rank 0's clock shows an instant that rank 0 says once all are there. `ahead_ns`: this
// rank's clock against rank 0's. All ranks call it.
Status wait_for_start(Control* control, Nanoseconds ahead_ns);

}  // namespace tandem
