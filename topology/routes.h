// Routes: shortest paths between the GPUs of any graph of GPUs, NICs, switches and links.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "topology/site_graph.h"

namespace tandem {

// A route has as few hops as can be (breadth-first search, Boost's), first inside the nodes, then
// between them, as a GPU keeps to the NIC nearest to it. So
// - inside a node it passes switches and, where it must, other GPUs; NICs pass nothing on there;
// - of NICs equally near, of P in all, the g GPUs of a node take number place x P / g, and the next
//   ones where that one leads nowhere; else a GPU sends by its neighbour's NIC (NCCL's PXN);
// - between nodes it passes switches only; of equally short ways it takes that of the destination's
//   number modulo their number, level by level (D-mod-k: Zahavi 2012, "Fat-tree routing and node
//   ordering providing contention-free traffic for MPI global collectives").
//
// Nothing is looked for before it is asked for, and what was found is remembered: once for all
// nodes that are wired alike, and once for all ports on the same switches. Not for two threads.
class Routes {
 public:
  // No route takes the links that have failed. GPU i stands at gpus[i].
  // REQUIRES: the graph outlives the routes; every GPU and NIC belongs to a node; a node's edges
  // lead to itself or to the fabric.
  Routes(const SiteGraph& graph, std::vector<SiteId> gpus, std::vector<bool> failed);
  ~Routes();

  // The links from one GPU to another, without wires. False: there is no way.
  bool find(int from, int to, std::vector<LinkId>* links) const;

  // A GPU and another that it cannot reach, if there are any.
  std::optional<std::pair<int, int>> parted() const;

 private:
  struct Hop {
    int link = -1;
    int at = -1;  // the switch that it leads to, or comes from
  };
  struct Exit;
  struct Inside;  // the ways inside a node, for all nodes that are wired alike
  struct Node;
  struct Tree;  // the ways between nodes to the switches of some ports
  class EqualWays;

  const Node& node(int number) const;
  const Inside& inside(const std::vector<SiteId>& sites, std::vector<int>* links) const;
  const Tree* tree_to(const std::vector<Hop>& down) const;
  void cross(SiteId out, SiteId in, const Tree& tree, int to, std::vector<LinkId>* links) const;
  std::vector<int> reach_of(int gpu, const std::vector<int>& component) const;

  const SiteGraph& graph_;
  std::vector<SiteId> gpus_;
  std::vector<bool> failed_;                // by link
  std::vector<int> target_;                 // by link between switches: the one it leads to
  std::vector<std::vector<SiteId>> sites_;  // by node: its GPUs, then the others
  std::vector<int> place_;                  // by site: in its node, or its switch's number
  std::vector<std::vector<Hop>> up_;        // by site of a node: its links to the fabric
  std::vector<std::vector<Hop>> down_;      // by site of a node: those from the fabric
  std::vector<std::vector<Hop>> between_;   // by switch: its links to others
  LinkGraph backwards_;                     // the same, each edge turned round

  mutable std::vector<std::unique_ptr<Node>> nodes_;
  mutable std::map<std::vector<int>, std::unique_ptr<Inside>> insides_;  // by wiring
  mutable std::map<std::vector<int>, std::unique_ptr<Tree>> trees_;      // by switches
};

}  // namespace tandem
