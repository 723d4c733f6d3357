// Place: builds a job's cluster and places its ranks on it. These are the first steps of compile().
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"

namespace tandem {

// Builds the cluster, in whole nodes if it needs more than one. Links that have failed for good are
// left out, and background traffic takes its share of the others. Costs that need no cluster get
// one on which every transfer takes p2p_s.
Result<Cluster> build_cluster(const ClusterSettings& settings, const CostSettings& costs,
                              const VariabilitySettings& variability);

// Builds the scenario's cluster. Errors are at its keys.
Result<Cluster> make_cluster(const Scenario& scenario);

Placement place_ranks(const ClusterSettings& settings, const Cluster& cluster);

}  // namespace tandem
