// Late operations: communication that begins after the Program lets it begin, beside compute.
#pragma once

#include <vector>

#include "validation/explain/delays.h"

namespace tandem {

// Adds to (*late_ns)[communicator][its n-th operation] how much later it begins in the step than
// the last of its members is ready. Only operations that overlap compute (compute_waits.h) count: a
// gap before others is a delay of compute (delays.h). REQUIRES: ranks share a clock.
void add_late_operations(const Program& program, const std::vector<StepDelays>& ranks,
                         std::vector<std::vector<double>>* late_ns);

}  // namespace tandem
