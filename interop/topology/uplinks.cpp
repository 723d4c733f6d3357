#include "interop/topology/uplinks.h"

namespace tandem {

std::map<std::string, double> uplinks_GBps(const std::vector<std::string>& switches,
                                           const std::vector<FabricCable>& cables,
                                           const std::map<std::string, double>& down_GBps,
                                           double oversubscription) {
  std::map<std::string, double> GBps;
  std::map<std::string, std::string> above;  // a switch -> the one above it
  std::map<std::string, int> below;          // how many switches are directly below a switch
  for (const std::string& name : switches) {
    const auto own = down_GBps.find(name);
    GBps[name] = own == down_GBps.end() ? 0 : own->second / oversubscription;
  }
  for (const FabricCable& cable : cables) {
    above[cable.from] = cable.to;
    ++below[cable.to];
  }
  std::map<std::string, int> missing = below;  // how many of these have not been added yet
  for (const std::string& leaf : switches) {
    if (below.contains(leaf)) continue;
    // Goes up from a leaf, and stops at a switch of which some switch below has not been added.
    std::string here = leaf;
    for (auto up = above.find(here); up != above.end(); up = above.find(here)) {
      GBps[up->second] += GBps[here];
      here = up->second;
      if (--missing[here] > 0) break;
    }
  }
  return GBps;
}

}  // namespace tandem
