// Nodes: a job may use only a part of each node's GPUs, as recipes use 64 of a rack's 72.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Cuts the cluster down to the GPUs that the job uses in each node, and to the NICs that they have.
// If cluster.gpus_of_node is not set and the job needs several nodes that divide its GPUs, it uses
// equally many on each: 12 GPUs on nodes of 8 are 6 on each of two. Otherwise it uses all GPUs of a
// node. Errors: more than a node has; nodes whose links are listed one by one.
Status take_part_of_nodes(ClusterSettings* cluster);

}  // namespace tandem
