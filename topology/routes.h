// Routes: shortest paths between GPUs in any graph of GPUs, NICs, switches and links.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "topology/fabric_paths.h"
#include "topology/node_paths.h"
#include "topology/site_graph.h"

namespace tandem {

// A route has the fewest hops, first inside the nodes and then between them, since a GPU uses the
// NIC nearest to it. node_paths.h says which path it takes inside a node, and which NIC of those
// that are equally near; fabric_paths.h says which path it takes between nodes. If none of the
// GPU's NICs leads on, it sends by another GPU's NIC (NCCL's PXN).
//
// Paths are computed when first asked for, and cached, inside nodes once for all that are wired
// alike. The cache has no lock: one thread only.
class Routes {
 public:
  // Finds routes without the failed links. gpus[i] is the site of GPU i.
  // REQUIRES: the graph outlives the routes; every GPU and NIC belongs to a node; a node's edges
  // lead to itself or to the fabric.
  Routes(const SiteGraph& graph, std::vector<SiteId> gpus, std::vector<bool> failed);

  bool has_failed(LinkId link) const { return failed_[index(link)]; }

  // Fills in the links from one GPU to another, without wires. Returns false if there is no way.
  bool find(int from, int to, std::vector<LinkId>* links) const;

  // Returns the GPU by whose NIC `from` sends to another node with NCCL's PXN. It is the GPU of its
  // node in the place of `to` if the two NICs hang on different switches (rails), its route is no
  // longer, and `from` reaches it by NVLink, not by the link to its own NIC. Otherwise `from`.
  int sender(int from, int to) const;

  // Returns a GPU and another that it cannot reach, if there are any.
  std::optional<std::pair<int, int>> unreachable_pair() const;

 private:
  struct Node {
    const NodePaths* paths = nullptr;  // null: not computed yet
    std::vector<int> links;            // by the number of an edge in the node; -1: a wire
  };
  struct PortPair {
    const PortPath *out = nullptr, *in = nullptr;  // null: no pair is joined
    int fabric_hops = 0;                           // between switches
  };
  using FabricReach = std::pair<std::set<int>, std::set<int>>;

  int node_of(int gpu) const { return graph_[gpus_[gpu]].node; }
  int place_of(int gpu) const { return place_[gpus_[gpu]]; }
  // `path`: of the GPU.
  SiteId port_of(int gpu, const PortPath& path) const { return sites_[node_of(gpu)][path.port]; }
  const Node& node(int number) const;
  PortPair nearest_ports(int from, int to) const;
  FabricReach fabric_reach(int gpu, const std::vector<int>& component) const;

  const SiteGraph& graph_;
  std::vector<SiteId> gpus_;
  std::vector<bool> failed_;                // by link
  std::vector<std::vector<SiteId>> sites_;  // by node: its GPUs, then its other sites
  std::vector<int> place_;                  // by site of a node: its place in `sites_`
  FabricPaths fabric_;

  mutable std::vector<Node> nodes_;
  mutable std::map<NodeWiring, NodePaths> node_paths_;
};

}  // namespace tandem
