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

// Sets the durations and ways (algorithm and protocol) of all communication by the cluster. The
// communicators of one class (rank_folding.h) run at the same time, so those that share a NIC share
// its bandwidth; each takes its own time. If the communicators of a body's ranks take different
// times, the body is split (split.h). A program that was priced before has the classes from before
// those splits, so that prices do not depend on the earlier ones. Also sets
// Communicator::between_nodes.
void price(Program* program, const Cluster& cluster, const Placement& placement);
// Prices several programs that have the same ranks and communicators. The result is the same as for
// each alone, but faster.
void price(std::span<Program* const> alike, const Cluster& cluster, const Placement& placement);

// Returns the operation's ways with the extra costs of a training run.
Choices at_training_cost(Choices choices, GroupKind group_kind, const CommCost& cost);

// The ops of a communicator that have the same kind and way; `bytes` is of the largest of them.
struct CommUse {
  CommKind kind = CommKind::SendRecv;
  int way = 0;
  Bytes bytes = 0;

  // These compare without the bytes.
  bool operator==(const CommUse& other) const { return kind == other.kind && way == other.way; }
  auto operator<=>(const CommUse& other) const {
    return kind != other.kind ? kind <=> other.kind : way <=> other.way;
  }
};

// Returns the uses of each slot of a body, each once, in order.
std::vector<std::vector<CommUse>> comm_uses(const Body& body);

// Returns the traffic of such an op alone. If its bytes take less than 10 ns (the gradient norm has
// 4 bytes), it has no flows, and its latency includes that time. Otherwise such tiny ops could be
// the only difference between ranks that are equal otherwise, and prevent their folding.
Traffic traffic_of(const Program& program, std::int32_t communicator, const CommUse& use,
                   const Cluster& cluster, const Placement& placement);

}  // namespace tandem
