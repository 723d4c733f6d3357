// Place: a job's cluster, and where on it each rank is. The first steps of compile().
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"

namespace tandem {

// In whole nodes, where it is more than one; without the links that have failed for good, and with
// what background traffic leaves. Costs that need no cluster get one on which every transfer takes
// p2p_s.
Result<Cluster> build_cluster(const ClusterSettings& settings, const CostSettings& costs,
                              const VariabilitySettings& variability);

// The scenario's; Errors stand at their keys.
Result<Cluster> make_cluster(const Scenario& scenario);

Placement place_ranks(const ClusterSettings& settings, const Cluster& cluster);

}  // namespace tandem
