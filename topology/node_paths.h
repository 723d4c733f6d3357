// NodePaths: the shortest paths inside a node, between its GPUs and to and from its ports.
#pragma once

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/site_graph.h"

namespace tandem {

// The graph of one node. Sites and edges have numbers of their own there, GPUs the first.
struct NodeWiring {
  std::vector<Vertex::Kind> sites;
  std::vector<int> ports;                  // sites where paths to the fabric leave the node
  std::vector<std::pair<int, int>> edges;  // from, to

  bool operator<(const NodeWiring& other) const {
    return std::tie(sites, ports, edges) < std::tie(other.sites, other.ports, other.edges);
  }
};

// A GPU's path to a port of its node, or a port's path to the GPU.
struct PortPath {
  int port = 0;  // a site's number
  std::vector<int> edges;

  int hops() const { return static_cast<int>(edges.size()); }
};

struct NodePaths {
  // [from][to]: the edges between two GPUs; nullopt: there is no path.
  std::vector<std::vector<std::optional<std::vector<int>>>> gpu_to_gpu;
  std::vector<std::vector<PortPath>> to_ports, from_ports;  // by GPU, the shortest first
};

// Returns paths that pass switches and, where they must, other GPUs, but never a NIC. Of P ports
// equally near, GPU i of g has number i x P / g first, and then the following ones.
NodePaths paths_inside(const NodeWiring& wiring);

}  // namespace tandem
