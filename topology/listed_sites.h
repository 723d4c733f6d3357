// ListedSites: what listed cables join. For this folder's sources only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"
#include "topology/site_graph.h"

namespace tandem {

// Sites stand where their names say: what stands before .gpu1 is a node, n0 of n0.gpu1 or a host's
// name; n0.nic0 is a NIC of it, n0 and whatever else begins with n0. a switch in it; any other name
// is a switch between nodes. Nodes are numbered in the natural order of their names.
struct ListedSites {
  std::vector<Site> sites;                        // the GPUs by number, then the others
  std::vector<std::pair<SiteId, SiteId>> cables;  // the ends of each
  int gpus = 0;
  int gpus_per_node = 0;
  std::vector<std::string> nodes;  // their names
};

// Error: GPUs that are not numbered through, nodes of unlike numbers of GPUs, nodes by number (n0)
// that are not numbered through, a cable from node to node or to where it begins.
Result<ListedSites> sites_of(const std::vector<ListedCable>& cables);

}  // namespace tandem
