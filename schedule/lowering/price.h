// Pricing: gives every communication op of a Program its duration when alone.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"
#include "topology/traffic.h"

namespace tandem {

// rank -> device.
using Placement = std::vector<DeviceId>;

// Rank i on device i.
Placement in_order(int ranks);

// Dealt round over the nodes, as Slurm's --distribution=cyclic does: rank i is on node i % nodes.
// REQUIRES: ranks that fill whole nodes.
Placement dealt_round(int ranks, int gpus_per_node);

// Durations and ways from the cluster; the communicators of one class run in lock step, so those
// that share a NIC share its bandwidth, and each takes its own time. Bodies whose ranks'
// communicators take unlike times are split; those that were split before are priced as if they
// were not. Also marks the communicators that cross nodes.
void price(Program* program, const Cluster& cluster, const Placement& placement);
// Programs at once whose ranks and communicators are the same: as each by itself.
void price(std::span<Program* const> alike, const Cluster& cluster, const Placement& placement);

// An operation's ways in a training run.
Choices at_cost(Choices choices, GroupKind group_kind, const CommCost& cost);

// What the ops of a communicator are: of a kind, by a way, of so many bytes at most.
struct CommUse {
  CommKind kind = CommKind::SendRecv;
  int way = 0;
  Bytes bytes = 0;

  // Whatever their bytes.
  bool operator==(const CommUse& other) const { return kind == other.kind && way == other.way; }
  auto operator<=>(const CommUse& other) const {
    return kind != other.kind ? kind <=> other.kind : way <=> other.way;
  }
};

// Those of each slot of a body, each once, in order.
std::vector<std::vector<CommUse>> comm_uses(const Body& body);

// The traffic of such an op of a communicator by itself. Where its bytes take less than 10 ns (the
// gradient norm has 4) it has no flows, and its latency includes them: otherwise such ops would be
// the only difference between ranks that are equal in all else.
Traffic traffic_of(const Program& program, std::int32_t communicator, const CommUse& use,
                   const Cluster& cluster, const Placement& placement);

}  // namespace tandem
