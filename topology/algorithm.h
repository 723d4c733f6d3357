// Algorithms: turns a communication operation into flows over links.
#pragma once

#include <span>

#include "base/ids.h"
#include "topology/traffic.h"

namespace tandem {

// Ring and Hierarchical are described at Collectives. Tree: double binary trees between nodes.
// Nvls: the switch reduces inside a node, and trees join the nodes.
enum class Algorithm { Ring, Hierarchical, Tree, Nvls };

// Returns the flows of one operation between `devices`, and its latency; seconds_per_byte is left
// 0. Several flows may use the same links. Where the algorithm does not fit the operation, flat
// rings take its place.
Traffic flows_of(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                 Algorithm algorithm);

}  // namespace tandem
