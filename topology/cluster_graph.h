// ClusterGraph: a cluster's graph in plain values, for drawing.
#pragma once

#include <string>
#include <vector>

namespace tandem {

struct ClusterGraph {
  enum class Kind { Gpu, Nic, Switch };

  struct Point {
    std::string name;
    int node = -1;  // -1: between nodes
    Kind kind = Kind::Switch;
  };
  // Both directions of a link, or of a wire, whose bandwidth is never a limit.
  struct Line {
    int from = 0, to = 0;
    double bytes_per_s = 0;  // 0: a wire
  };

  std::vector<Point> points;
  std::vector<Line> lines;
  std::vector<std::string> nodes;  // names of the nodes
};

// Returns Graphviz text: nodes as subgraphs, links labelled with their rates.
std::string dot_of(const ClusterGraph& graph);

}  // namespace tandem
