// Site: a job's cluster, and the GPU of each rank on it: the result of compile()'s first step.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"

namespace tandem {

struct Site {
  Cluster cluster;
  Placement placement;  // the GPU of each rank
};

// Builds the scenario's site. A cluster of more than one node has whole nodes only. Links that fail
// for good are left out, and background traffic takes its bandwidth. If the costs need no cluster,
// every transfer takes costs.p2p_s x the profile's pipeline_stretch. Errors name keys, but not the
// file's lines: they are for callers that add these to all their Errors (Scenario::placed).
Result<Site> build_site(const Scenario& scenario);

// Does the same. Errors name the file and line of the keys.
Result<Site> make_site(const Scenario& scenario);

// Does so for a scenario of which cluster.gpus or cluster.cyclic was changed after it was made: its
// hostfile then gives ranks their GPUs anew.
Result<Site> make_changed_site(Scenario scenario);

// Builds the cluster alone, with such errors.
Result<Cluster> make_cluster(const Scenario& scenario);

// Says how many NICs of a node carry no traffic (topology/fabric_shape.h). Empty, too, if all ranks
// are on one node.
std::string idle_nics(const Site& site);

// Returns the GPU of each rank: as listed, round robin over the nodes, or node after node.
Placement place_ranks(const ClusterSettings& settings, const Cluster& cluster);

}  // namespace tandem
