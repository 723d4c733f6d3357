// Routes: shortest paths between GPUs in any graph of GPUs, NICs, switches and links.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "topology/site_graph.h"

namespace tandem {

// A route has the fewest hops, first inside the nodes and then between them, since a GPU uses the
// NIC nearest to it. Paths come from breadth-first search. So
// - inside a node a route passes switches and, where it must, other GPUs; it never passes a NIC;
// - of P NICs equally near, GPU i of g takes number i x P / g, and the following ones if that leads
//   nowhere; if none leads on, it sends by another GPU's NIC (NCCL's PXN);
// - between nodes a route passes switches only; of several equally short ways it takes one by the
//   number of the destination's port, level by level. Ports are numbered leaf by leaf. (D-mod-k:
//   Zahavi 2012, "Fat-tree routing and node ordering providing contention-free traffic for MPI
//   global collectives", there up to parallel cables.)
//
// Paths are computed when first asked for, and cached: once for all nodes that are wired alike, and
// once for all ports on the same switches. The cache has no lock: one thread only.
class Routes {
 public:
  // Finds routes without the failed links. gpus[i] is the site of GPU i.
  // REQUIRES: the graph outlives the routes; every GPU and NIC belongs to a node; a node's edges
  // lead to itself or to the fabric.
  Routes(const SiteGraph& graph, std::vector<SiteId> gpus, std::vector<bool> failed);
  ~Routes();

  // Fills in the links from one GPU to another, without wires. Returns false if there is no way.
  bool find(int from, int to, std::vector<LinkId>* links) const;

  // Returns a GPU and another that it cannot reach, if there are any.
  std::optional<std::pair<int, int>> unreachable_pair() const;

 private:
  struct Hop {
    int link = -1;
    int far_switch = -1;  // the switch at the link's other end
  };
  struct PortPath;   // from a GPU to a port of its node, or back
  struct NodePaths;  // paths inside a node, shared by nodes wired alike
  struct Node;
  struct Tree;  // shortest paths through the fabric to the switches of some ports
  class EqualWays;
  struct PortPair {
    const PortPath *out = nullptr, *in = nullptr;  // null: no pair is joined
  };

  void number_sites();
  void collect_hops();
  void number_ports();
  const Node& node(int number) const;
  const NodePaths& paths_inside(const std::vector<SiteId>& sites, std::vector<int>* links) const;
  const Tree* tree_to(const std::vector<Hop>& from_fabric) const;
  void add_fabric_links(SiteId out, SiteId in, const Tree& tree, std::vector<LinkId>* links) const;
  PortPair nearest_ports(int from, int to) const;
  std::vector<int> fabric_reach(int gpu, const std::vector<int>& component) const;

  const SiteGraph& graph_;
  std::vector<SiteId> gpus_;
  std::vector<bool> failed_;                // by link
  std::vector<int> link_end_;               // by link between switches: the switch it leads to
  std::vector<std::vector<SiteId>> sites_;  // by node: its GPUs, then its other sites
  std::vector<int> port_number_;            // by site: its number among the ports, if it is one
  // By site: its place in its node; for a switch of the fabric its number among these.
  std::vector<int> place_;
  std::vector<std::vector<Hop>> to_fabric_;     // by site of a node: its links to the fabric
  std::vector<std::vector<Hop>> from_fabric_;   // by site of a node: links from the fabric to it
  std::vector<std::vector<Hop>> switch_links_;  // by switch: its links to other switches
  LinkGraph backwards_;                         // `switch_links_` with each edge reversed

  mutable std::vector<int> quotients_;  // reused by each route's EqualWays
  mutable std::vector<std::unique_ptr<Node>> nodes_;
  mutable std::map<std::vector<int>, std::unique_ptr<NodePaths>> node_paths_;  // by wiring
  mutable std::map<std::vector<int>, std::unique_ptr<Tree>> trees_;            // by switches
};

}  // namespace tandem
