// IterationBound: what no order can beat of a job's iteration, with its stages on its ranks and
// within its GPUs' memory.
#pragma once

#include <optional>

#include "scenarios/config/scenario.h"
#include "scenarios/run/compile.h"
#include "schedule/order/lower_bound.h"
#include "sim/engines.h"

namespace tandem {

// In seconds, of the whole iteration: passes, transfers, and what data parallelism and the
// optimizer add that no order hides (docs/bounds.md). All else of the scenario stays. A rank may
// hold what its GPU has room for, or what this order holds where that is more. Nothing where an op
// may take less than its price: with jitter, and on links where ranks of a stage are not alike; and
// nothing where one microbatch with split and one with whole backwards cannot be lowered.
std::optional<LowerBound> iteration_bound(const Scenario& scenario, const CompiledJob& job,
                                          Engine engine);

}  // namespace tandem
