// Uplinks: the rates that switches carry up if no file states them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interop/topology/imported_topology.h"

namespace tandem {

// Returns the rate that each switch carries up, GB/s: the sum of the rates that the switches below
// it carry up, plus its own hosts' rate (`down_GBps`, by switch) divided by the oversubscription.
// REQUIRES: each cable leads from a switch to the one above it, and there is no cycle.
std::map<std::string, double> uplinks_GBps(const std::vector<std::string>& switches,
                                           const std::vector<FabricCable>& cables,
                                           const std::map<std::string, double>& down_GBps,
                                           double oversubscription);

}  // namespace tandem
