// Pricing: gives every communication op of a Program its duration when alone.
#pragma once

#include <vector>

#include "base/ids.h"
#include "schedule/cast.h"
#include "schedule/program.h"
#include "topology/cluster.h"

namespace tandem {

// rank -> device.
using Placement = std::vector<DeviceId>;

// Rank i on device i.
Placement in_order(int ranks);

// Dealt round over the nodes, as Slurm's --distribution=cyclic does: rank i is on node i % nodes.
// REQUIRES: ranks that fill whole nodes.
Placement dealt_round(int ranks, int gpus_per_node);

// Durations from the cluster; the communicators of one class run in lock step, so those that share
// a NIC share its bandwidth. Also marks the communicators that cross nodes.
void price(Program* program, const Cluster& cluster, const Placement& placement);

// An operation's ways in a training run.
Choices at_cost(Choices choices, Scope scope, const CommCost& cost);

// The ways that an op of `kind` on a channel of the cast can go.
Choices channel_choices(const Program& program, const Channel& channel, CommKind kind,
                        const Cluster& cluster, const Placement& placement);

}  // namespace tandem
