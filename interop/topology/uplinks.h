// Uplinks: what switches carry up where no file states a rate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interop/topology/imported_topology.h"

namespace tandem {

// By switch, GB/s: all that comes from its switches below, and of what its own hosts send (`down`,
// by switch) the share that the oversubscription leaves. REQUIRES: cables from each switch to the
// one above it, without a cycle.
std::map<std::string, double> uplinks_GBps(const std::vector<std::string>& switches,
                                           const std::vector<FabricCable>& cables,
                                           const std::map<std::string, double>& down,
                                           double oversubscription);

}  // namespace tandem
