// Buildable: warns of parts of a cluster that cannot be bought or built as its spec has them.
#pragma once

#include <string>
#include <vector>

#include "topology/cluster.h"

namespace tandem {

// Returns a line for each limit that the spec exceeds, with the limit and its source: a NIC faster
// than its slot, a number of GPUs on a node that is not sold, a fabric that no switch can make for
// so many nodes. Returns a line as well for a GPU whose limits are not known.
std::vector<std::string> build_warnings(const ClusterSpec& spec, int nodes);

}  // namespace tandem
