// Buildable: says what of a cluster cannot be bought or built as its spec has it.
#pragma once

#include <string>
#include <vector>

#include "topology/cluster.h"

namespace tandem {

// Returns a line for each limit that the spec is beyond, with the limit and its source: a NIC
// faster than its slot, a node with more or fewer GPUs than are sold joined, a fabric that no
// switch can make for so many nodes; and one for a GPU whose limits are not known here.
std::vector<std::string> build_warnings(const ClusterSpec& spec, int nodes);

}  // namespace tandem
