// The cables of a composed cluster as a file.
#pragma once

#include <string>
#include <vector>

#include "interop/topology/compose.h"

namespace tandem {

// As cluster.links_file has them, comments above: from,to,GBps,latency_us,efficiency.
std::string cables_csv(const ComposedCluster& cluster, const std::vector<std::string>& comments);

}  // namespace tandem
