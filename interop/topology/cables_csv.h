// Writes the cables of a composed cluster as a file.
#pragma once

#include <string>
#include <vector>

#include "interop/topology/compose.h"

namespace tandem {

// Returns the text of a cluster.links_file: comments, then from,to,GBps,latency_us,efficiency.
std::string cables_csv(const ComposedCluster& cluster, const std::vector<std::string>& comments);

}  // namespace tandem
