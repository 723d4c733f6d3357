// A picture of a cluster: the switches above the nodes that they connect, and below them the inside
// of one node.
#pragma once

#include <string>

#include "topology/cluster_graph.h"

namespace tandem {

// Returns an SVG document. If there are many nodes, those on the same switches with as many GPUs
// share a box. Links between the same two boxes are one line, which is wider the more bandwidth
// they have. Boxes and lines have titles. REQUIRES: the graph has a node.
std::string cluster_svg(const ClusterGraph& graph, const std::string& title);

}  // namespace tandem
