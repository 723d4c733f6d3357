// FabricPaths: the shortest paths between nodes, from port to port through the fabric's switches.
#pragma once

#include <map>
#include <vector>

#include "base/ids.h"
#include "topology/site_graph.h"

namespace tandem {

// A port is a site of a node with links to or from switches of the fabric. Of several equally short
// paths one is taken by the number of the destination's port, level by level; ports are numbered
// leaf by leaf. (D-mod-k: Zahavi 2012, "Fat-tree routing and node ordering providing
// contention-free traffic for MPI global collectives", there up to parallel cables.)
//
// Paths are cached when first asked for, once for all ports on the same switches, without a lock.
class FabricPaths {
 public:
  struct Hop {
    int link = -1;
    int far_switch = -1;  // the number of the switch at the link's other end
  };

  // Finds paths without the failed links. `nodes`: the sites of each node, in the ports' order.
  FabricPaths(const SiteGraph& graph, const std::vector<bool>& failed,
              const std::vector<std::vector<SiteId>>& nodes);

  // Return a site's links to the fabric, and from the fabric to it.
  const std::vector<Hop>& links_up(SiteId site) const { return links_up_[site]; }
  const std::vector<Hop>& links_down(SiteId site) const { return links_down_[site]; }

  // Returns the hops between switches on the path from port `out` to port `in`; -1: there is none.
  int hops(SiteId out, SiteId in) const;
  // Adds its links. REQUIRES: there is a path.
  void add_links(SiteId out, SiteId in, std::vector<LinkId>* links) const;

  // Returns the strongly connected component of each switch.
  std::vector<int> components() const;

 private:
  // The shortest paths from every switch to a port. A path ends at the nearest of its switches.
  struct Tree {
    std::vector<int> hops;  // by switch; -1: there is no path
    std::vector<Hop> next;  // by switch; link kSeveral if several are equally good
  };
  static constexpr int kSeveral = -2;

  void number_ports(const std::vector<std::vector<SiteId>>& nodes);
  const Tree* tree_to(SiteId port) const;
  Tree grow(const std::vector<int>& roots) const;

  std::vector<std::vector<Hop>> links_up_, links_down_;  // by site
  std::vector<std::vector<Hop>> links_on_, links_back_;  // by switch: to and from other switches
  std::vector<int> port_number_;                         // by site

  mutable std::vector<const Tree*> tree_of_port_;   // by site; null: not asked for yet
  mutable std::map<std::vector<int>, Tree> trees_;  // by the switches where paths end
  mutable std::vector<int> quotients_;              // memory that each path uses again
};

}  // namespace tandem
