// Uplinks: the rates that switches carry up if no file states them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interop/topology/imported_topology.h"

namespace tandem {

// Returns by switch what it carries up, GB/s: all that comes from its switches below, and the share
// of its own hosts' traffic (`down`, by switch) that the oversubscription leaves. REQUIRES: cables
// from each switch to the one above it, without a cycle.
std::map<std::string, double> uplinks_GBps(const std::vector<std::string>& switches,
                                           const std::vector<FabricCable>& cables,
                                           const std::map<std::string, double>& down,
                                           double oversubscription);

}  // namespace tandem
