// A cluster as a picture: switches over the nodes that hang on them, and a node's inside below.
#pragma once

#include <string>

#include "topology/cluster_graph.h"

namespace tandem {

// An SVG document. Nodes on the same switches are one box where there are many nodes; links between
// the same two boxes are one line, the wider the more they carry. Boxes and lines have titles.
std::string cluster_svg(const ClusterGraph& graph, const std::string& title);

}  // namespace tandem
