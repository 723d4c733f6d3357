// IterationBound: a lower bound of a job's iteration time, for all orders of its stages' passes
// that fit into the GPUs' memory.
#pragma once

#include <optional>

#include "job/compile.h"
#include "scenarios/scenario.h"
#include "schedule/order/lower_bound.h"

namespace tandem {

// Returns the bound in seconds of the whole iteration: passes, transfers, and the part of data
// parallelism and the optimizer that no order can overlap (docs/bounds.md). Only the order of
// passes may vary, all other settings stay. A rank may hold as much as its GPU has room for, or as
// this order holds if that is more.
//
// Returns nullopt if an op may take less than its price: with jitter, or if links are shared and
// the ranks of a stage differ. Also returns nullopt if one Program cannot have both split and whole
// backwards. `links_are_shared`: the engine lets transfers share the bandwidth of links.
std::optional<LowerBound> iteration_bound(const Scenario& scenario, const CompiledJob& job,
                                          bool links_are_shared);

}  // namespace tandem
