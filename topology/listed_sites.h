// ListedSites: what listed cables join. For this folder's sources only.
#pragma once

#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"
#include "topology/site_graph.h"

namespace tandem {

// Sites stand where their names say: n0.gpu1 is a GPU of node 0, n0.nic0 a NIC, n0 and whatever
// else begins with n0. a switch in it; any other name is a switch between nodes.
struct ListedSites {
  std::vector<Site> sites;                        // the GPUs by number, then the others
  std::vector<std::pair<SiteId, SiteId>> cables;  // the ends of each
  int gpus = 0;
  int gpus_per_node = 0;
};

// Error: nodes or GPUs that are not numbered through, nodes of unlike numbers of GPUs, a cable from
// node to node or to where it begins.
Result<ListedSites> sites_of(const std::vector<ListedCable>& cables);

}  // namespace tandem
