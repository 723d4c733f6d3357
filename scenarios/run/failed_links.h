// Failed links: a run without the links that a scenario says have failed for good.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"

namespace tandem {

// The same with all links; stragglers and jitter stay.
Scenario with_all_links(Scenario scenario);

// Routes go round them from now on. Error: there is no such link, or a GPU has no other way.
Status take_out_failed_links(const SlowLink& slow, Cluster* cluster);

// How many routes between neighbours in the program's communicators are other ones than with all
// links.
std::string rerouted(const SlowLink& failed, const Program& program, const Placement& placement,
                     const Cluster& cluster, const Cluster& with_all);

}  // namespace tandem
