// Nodes: a job may take only a part of each node's GPUs, as recipes take 64 of a rack's 72.
#pragma once

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Cuts the cluster down to the GPUs that the job takes in each node, and to their share of the
// NICs. If cluster.gpus_of_node is not set, the job takes all GPUs of a node. If it needs several
// nodes and divides evenly among them, it takes equally many of each: 12 GPUs on nodes of 8 are 6
// on each of two. Errors: more than a node has; nodes whose links are listed one by one.
Status take_part_of_nodes(ClusterSettings* cluster);

}  // namespace tandem
