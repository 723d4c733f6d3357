// Site: a job's cluster, and the GPU of each rank on it. It is the first value of compile().
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"

namespace tandem {

struct Site {
  Cluster cluster;
  Placement placement;  // the GPU of each rank
};

// Builds the scenario's site. A cluster of more than one node has whole nodes. Links that have
// failed for good are left out, and background traffic takes its share. Costs that need no cluster
// get one on which every transfer takes p2p_s. Errors name their keys, but not the file's lines.
Result<Site> build_site(const Scenario& scenario);

// Does the same, with errors at the lines of the scenario's keys.
Result<Site> make_site(const Scenario& scenario);

// Builds the cluster alone, with errors at the lines of the scenario's keys.
Result<Cluster> make_cluster(const Scenario& scenario);

Placement place_ranks(const ClusterSettings& settings, const Cluster& cluster);

}  // namespace tandem
