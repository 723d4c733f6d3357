// SiteGraph: a cluster's graph in Boost.Graph's form. For this folder's sources only.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <string>

namespace tandem {

// A vertex: a GPU, a NIC or a switch, and the node it belongs to (-1: the fabric between nodes).
struct Vertex {
  enum Kind : std::int8_t { Gpu, Nic, Switch };

  std::string name;
  int node = -1;
  Kind kind = Switch;
};

// An edge: the link of that number, or (-1) a wire inside a node, whose bandwidth is never a limit.
struct SiteEdge {
  int link = -1;
};

using SiteGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, SiteEdge>;
using SiteId = SiteGraph::vertex_descriptor;

}  // namespace tandem
