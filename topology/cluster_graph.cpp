#include "topology/cluster_graph.h"

#include <fmt/format.h>

#include "base/units.h"

namespace tandem {

std::string dot_of(const ClusterGraph& graph) {
  std::vector<std::string> inside(graph.nodes.size());
  std::string text = "graph {\n  node [shape=box];\n";
  for (const ClusterGraph::Point& point : graph.points) {
    std::string& where = point.node < 0 ? text : inside[point.node];
    where += fmt::format("{}\"{}\";\n", point.node < 0 ? "  " : "    ", point.name);
  }
  for (std::size_t node = 0; node < graph.nodes.size(); ++node)
    text += fmt::format("  subgraph cluster_n{} {{\n    label=\"{}\";\n{}  }}\n", node,
                        graph.nodes[node], inside[node]);
  for (const ClusterGraph::Line& line : graph.lines) {
    const std::string style = line.bytes_per_s > 0
                                  ? fmt::format("label=\"{:.4g} GB/s\"", line.bytes_per_s / GB)
                                  : "style=dotted";
    text += fmt::format("  \"{}\" -- \"{}\" [{}];\n", graph.points[line.from].name,
                        graph.points[line.to].name, style);
  }
  return text + "}\n";
}

}  // namespace tandem
