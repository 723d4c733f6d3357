// FabricShape: describes a fabric of listed cables: its leaves, and how far apart nodes are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// A switch between nodes that nodes hang on. Rates are line rates in one direction.
struct LeafShape {
  std::string name;
  int down_links = 0, up_links = 0;
  double down_bytes_per_s = 0, up_bytes_per_s = 0;

  // Returns the bandwidth of downlinks over that of uplinks; 0 without uplinks.
  double oversubscription() const {
    return up_bytes_per_s > 0 ? down_bytes_per_s / up_bytes_per_s : 0;
  }
};

struct FabricShape {
  std::vector<LeafShape> leaves;  // in natural order of the names
  int switches = 0;               // between nodes, including the leaves
  // Counts pairs of nodes by the fewest switches on a way between them, whichever NICs it takes.
  std::map<int, std::int64_t> pairs;
};

// Returns the Errors of sites_of(), too.
Result<FabricShape> fabric_shape(const std::vector<ListedCable>& cables);

// Says how many NICs of the first node no route takes, as a GPU keeps to one of several that are as
// near: "8 NICs a node, 4 carry traffic: ...". NICs whose links have failed do not count. Empty:
// all carry some, or no links are listed, or there is one node.
std::string idle_nics(const Cluster& cluster);

}  // namespace tandem
