// Nodes of which a job takes a part of the GPUs, as recipes take 64 of a rack's 72.
#pragma once

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// The cluster as the job sees it: nodes of the GPUs that it takes, with their part of the NICs. Not
// said: all; or, of a job that fills no whole number of nodes but lies evenly on as many, equally
// many of each.
// Errors: more than a node has; nodes whose links are listed one by one.
Status take_part_of_nodes(ClusterSettings* cluster);

}  // namespace tandem
