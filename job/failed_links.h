// FailedLinks: removes the links from a cluster that fail for good by the scenario.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"

namespace tandem {

// Returns the scenario with no link slow or failed. Stragglers and jitter stay.
Scenario with_all_links(Scenario scenario);

// Removes the failed links from the cluster, so that routes avoid them. Returns an Error if there
// is no such link, or if a GPU has no other route.
Status remove_failed_links(const SlowLink& slow, Cluster* cluster);

// Returns a sentence that says how many routes between neighbours in the program's communicators
// have changed against the cluster with all links.
std::string rerouting_note(const SlowLink& failed, const Program& program,
                           const Placement& placement, const Cluster& cluster,
                           const Cluster& with_all);

}  // namespace tandem
