// Algorithms: the flows that an operation is made of.
#pragma once

#include <span>

#include "base/ids.h"
#include "topology/traffic.h"

namespace tandem {

// Ring and Hierarchical: see Collectives. Tree: over nodes. Nvls: by the switch inside a node, and
// in trees between nodes.
enum class Algorithm { Ring, Hierarchical, Tree, Nvls };

// The flows of one operation between `devices`, several over the same links as its algorithm makes
// them, and its latency; without seconds_per_byte. Where the algorithm does not fit the operation
// it goes in flat rings.
Traffic flows_of(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                 Algorithm algorithm);

}  // namespace tandem
