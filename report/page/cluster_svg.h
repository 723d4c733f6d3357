// A picture of a cluster: switches over the nodes that hang on them, and a node's inside below.
#pragma once

#include <string>

#include "topology/cluster_graph.h"

namespace tandem {

// Returns an SVG document. If there are many nodes, those on the same switches with as many GPUs
// share a box. Links between the same two boxes are one line, which is wider the more they carry.
// Boxes and lines have titles. REQUIRES: the graph has a node.
std::string cluster_svg(const ClusterGraph& graph, const std::string& title);

}  // namespace tandem
