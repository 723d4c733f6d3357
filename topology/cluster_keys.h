// ClusterKeys: the numbers of a cluster and of its GPUs by name. A scenario's [cluster] and the
// preset files share this table.
#pragma once

#include <vector>

#include "keys/bind.h"
#include "topology/cluster.h"

namespace tandem {

const std::vector<BoundKey<ClusterSpec>>& cluster_keys();
const std::vector<BoundKey<DeviceSpec>>& device_keys();

}  // namespace tandem
