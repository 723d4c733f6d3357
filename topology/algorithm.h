// Algorithms: the streams that an operation is made of.
#pragma once

#include <span>

#include "base/ids.h"
#include "topology/traffic.h"

namespace tandem {

// The flows of one operation between `devices`, several over the same links as its algorithm makes
// them, and its latency; without seconds_per_byte. `collectives` is not Auto.
Traffic streams_of(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                   Collectives collectives);

}  // namespace tandem
