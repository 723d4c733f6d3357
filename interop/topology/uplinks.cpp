#include "interop/topology/uplinks.h"

namespace tandem {

std::map<std::string, double> uplinks_GBps(const std::vector<std::string>& switches,
                                           const std::vector<FabricCable>& cables,
                                           const std::map<std::string, double>& down,
                                           double oversubscription) {
  std::map<std::string, double> GBps;
  std::map<std::string, std::string> above;
  std::map<std::string, int> below;
  for (const std::string& one : switches) {
    const auto own = down.find(one);
    GBps[one] = own == down.end() ? 0 : own->second / oversubscription;
  }
  for (const FabricCable& cable : cables) {
    above[cable.from] = cable.to;
    ++below[cable.to];
  }
  std::map<std::string, int> missing = below;  // how many switches below have not been added yet
  for (const std::string& leaf : switches) {
    if (below.contains(leaf)) continue;
    // Goes up from a leaf while all that is below has been added.
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
