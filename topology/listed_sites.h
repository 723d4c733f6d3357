// ListedSites: the sites that listed cables join. For this folder's sources only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"
#include "topology/site_graph.h"

namespace tandem {

// The name of a site says where it is. The text before .gpu1 is a node: n0 of n0.gpu1, or a host's
// name. n0.nic0 is a NIC of that node, and any other name that begins with n0. is a switch in it.
// All other names are switches between nodes. Nodes are numbered in the natural order of their
// names.
struct ListedSites {
  std::vector<Vertex> sites;                      // the GPUs by number, then the others
  std::vector<std::pair<SiteId, SiteId>> cables;  // both ends of each cable
  int gpus = 0;
  int gpus_per_node = 0;
  std::vector<std::string> nodes;  // names of the nodes
};

// Errors: GPUs that are not numbered through, nodes with different numbers of GPUs, a cable between
// two nodes without a switch or from a site to itself.
Result<ListedSites> sites_of(const std::vector<ListedCable>& cables);

// Checks that nodes by number (n0), if the first is one, leave none out: a typing error would leave
// a GPU unconnected. For names that are no hosts'.
Status check_numbers(const ListedSites& listed);

}  // namespace tandem
