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

// The device of each rank.
using Placement = std::vector<DeviceId>;

// Places rank i on device i.
Placement in_order(int ranks);

// Places ranks in turn on the nodes, as Slurm's --distribution=cyclic does: rank i is on node i %
// nodes. REQUIRES: ranks that fill whole nodes.
Placement round_robin(int ranks, int gpus_per_node);

// Sets durations and ways from the cluster. The communicators of one class run in lock step: those
// that share a NIC share its bandwidth, and each takes its own time. Bodies whose ranks'
// communicators take unlike times are split. Bodies that were split before are priced as if they
// were not. Also marks the communicators that cross nodes.
void price(Program* program, const Cluster& cluster, const Placement& placement);
// Prices several programs with the same ranks and communicators at once, with the results of
// pricing each.
void price(std::span<Program* const> alike, const Cluster& cluster, const Placement& placement);

// Returns an operation's ways at their cost in a training run.
Choices at_training_cost(Choices choices, GroupKind group_kind, const CommCost& cost);

// A use of a communicator by ops: their kind, their way, and the most bytes of one of them.
struct CommUse {
  CommKind kind = CommKind::SendRecv;
  int way = 0;
  Bytes bytes = 0;

  // Compare without the bytes.
  bool operator==(const CommUse& other) const { return kind == other.kind && way == other.way; }
  auto operator<=>(const CommUse& other) const {
    return kind != other.kind ? kind <=> other.kind : way <=> other.way;
  }
};

// Returns the uses of each slot of a body, each once, in order.
std::vector<std::vector<CommUse>> comm_uses(const Body& body);

// Returns the traffic of such an op by itself. If its bytes take less than 10 ns (the gradient norm
// has 4 bytes), it has no flows, and its latency includes them. Otherwise such ops would be the
// only difference between ranks that are equal in all else.
Traffic traffic_of(const Program& program, std::int32_t communicator, const CommUse& use,
                   const Cluster& cluster, const Placement& placement);

}  // namespace tandem
