// IterationBound: a lower bound of a job's iteration, which no order of its stages on its ranks can
// beat within the GPUs' memory.
#pragma once

#include <optional>

#include "job/compile.h"
#include "scenarios/scenario.h"
#include "schedule/order/lower_bound.h"

namespace tandem {

// Returns the bound in seconds of the whole iteration: passes, transfers, and the part of data
// parallelism and the optimizer that no order hides (docs/bounds.md). All other settings of the
// scenario stay. A rank may hold what its GPU has room for, or what this order holds if that is
// more. Returns nothing where an op may take less than its price: with jitter, and on links where
// the ranks of a stage differ. It also returns nothing where one microbatch cannot be lowered both
// with split and with whole backwards. `links_are_shared`: the engine lets transfers share links.
std::optional<LowerBound> iteration_bound(const Scenario& scenario, const CompiledJob& job,
                                          bool links_are_shared);

}  // namespace tandem
