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
// - of P NICs equally near, GPU `place` of g on its node takes number place x P / g, and the next
//   ones where that one leads nowhere; else a GPU sends by its neighbour's NIC (NCCL's PXN);
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
    int at = -1;  // the switch at the link's other end
  };
  struct Exit;
  struct Inside;  // ways inside a node, shared by nodes wired alike
  struct Node;
  struct Tree;  // ways between nodes to the switches of some ports
  class EqualWays;

  const Node& node(int number) const;
  const Inside& inside(const std::vector<SiteId>& sites, std::vector<int>* links) const;
  const Tree* tree_to(const std::vector<Hop>& down) const;
  void cross(SiteId out, SiteId in, const Tree& tree, std::vector<LinkId>* links) const;
  void number_ports();
  std::vector<int> reach_of(int gpu, const std::vector<int>& component) const;

  const SiteGraph& graph_;
  std::vector<SiteId> gpus_;
  std::vector<bool> failed_;                // by link
  std::vector<int> target_;                 // by link between switches: its destination
  std::vector<std::vector<SiteId>> sites_;  // by node: its GPUs, then its other sites
  std::vector<int> number_;                 // by site: its number among the ports, where it is one
  std::vector<int> place_;                 // by site: its place in its node, or its switch's number
  std::vector<std::vector<Hop>> up_;       // by site of a node: its links to the fabric
  std::vector<std::vector<Hop>> down_;     // by site of a node: those from the fabric
  std::vector<std::vector<Hop>> between_;  // by switch: its links to other switches
  LinkGraph backwards_;                    // `between_` with each edge reversed

  mutable std::vector<int> left_;  // scratch of EqualWays, which is made for each route
  mutable std::vector<std::unique_ptr<Node>> nodes_;
  mutable std::map<std::vector<int>, std::unique_ptr<Inside>> insides_;  // by wiring
  mutable std::map<std::vector<int>, std::unique_ptr<Tree>> trees_;      // by switches
};

}  // namespace tandem
