// FabricShape: what a fabric of listed cables is like: its leaves, and how far nodes are apart.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// A switch between nodes that nodes hang on. Rates are line rates, a direction.
struct LeafShape {
  std::string name;
  int down_links = 0, up_links = 0;
  double down_bytes_per_s = 0, up_bytes_per_s = 0;

  // Of what its nodes send what its uplinks cannot carry at once; 0: it has no uplinks.
  double oversubscription() const {
    return up_bytes_per_s > 0 ? down_bytes_per_s / up_bytes_per_s : 0;
  }
};

struct FabricShape {
  std::vector<LeafShape> leaves;  // in natural order of their names
  int switches = 0;               // between nodes, the leaves among them
  // Pairs of nodes by the fewest switches on a way between them, whichever NICs it takes.
  std::map<int, std::int64_t> pairs;
};

// Error: as sites_of has it.
Result<FabricShape> fabric_shape(const std::vector<ListedCable>& cables);

}  // namespace tandem
