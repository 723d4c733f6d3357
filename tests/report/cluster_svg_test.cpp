// Pictures of clusters: which boxes and lines they have.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "report/page/cluster_svg.h"
#include "tests/text.h"

using namespace tandem;

namespace {

using Kind = ClusterGraph::Kind;

// Nodes of a GPU, a NIC and a switch on two leaves by turns, and two cables from each to a spine.
ClusterGraph two_leaves(int nodes) {
  ClusterGraph graph;
  graph.points = {{"leaf<1>", -1}, {"leaf2", -1}, {"spine", -1}};
  graph.lines = {{0, 2, 50e9}, {0, 2, 50e9}, {1, 2, 50e9}, {1, 2, 50e9}};
  for (int i = 0; i < nodes; ++i) {
    const std::string name = fmt::format("n{}", i);
    const int first = static_cast<int>(graph.points.size());
    graph.nodes.push_back(name);
    graph.points.push_back({name + ".gpu0", i, Kind::Gpu});
    graph.points.push_back({name + ".nic0", i, Kind::Nic});
    graph.points.push_back({name + ".nvswitch", i, Kind::Switch});
    graph.lines.push_back({first, first + 1, 0});
    graph.lines.push_back({first, first + 2, 450e9});
    graph.lines.push_back({first + 1, i % 2, 25e9});
  }
  return graph;
}

}  // namespace

TEST_CASE("a long name is cut between characters") {
  ClusterGraph graph = two_leaves(2);
  std::string name = "x";
  for (int i = 0; i < 29; ++i) name += "\xC3\xA9";
  graph.points[1].name = name + 'y';
  const std::string svg = cluster_svg(graph, "lab");
  CHECK(has(svg, "..\xC3\xA9"));
  CHECK(!has(svg, "..\xA9"));
}

TEST_CASE("few nodes have a box each, links between two boxes are one line") {
  const std::string svg = cluster_svg(two_leaves(4), "lab");
  CHECK(count(svg, "<g class=\"node\">") == 4);
  // Two leaves and the spine, and the switch inside the first node.
  CHECK(count(svg, "<g class=\"switch\">") == 4);
  CHECK(count(svg, "<g class=\"gpu\">") == 1);
  CHECK(count(svg, "<g class=\"nic\">") == 1);
  // Leaves to the spine, nodes to leaves, and two inside.
  CHECK(count(svg, "<path ") == 2 + 4 + 2);
  CHECK(has(svg, "<title>leaf2 - spine: 2 links, 100 GB/s a direction</title>"));
  CHECK(has(svg, "<title>n0.gpu0 - n0.nic0: a wire that limits nothing</title>"));
  CHECK(has(svg, "inside of n0"));
}

TEST_CASE("many nodes on the same switches are one box that names them") {
  const std::string svg = cluster_svg(two_leaves(60), "lab");
  CHECK(count(svg, "<g class=\"node\">") == 2);
  CHECK(count(svg, ">30 nodes</text>") == 2);
  CHECK(has(svg, "<title>n[0,2,4,6,"));
  CHECK(has(svg, "30 links, 750 GB/s a direction"));
}

// Nodes 0 and 2 are on one leaf, and node 2 has one GPU more: 31 nodes on 3 boxes.
TEST_CASE("nodes share a box if they have as many GPUs, too") {
  ClusterGraph graph = two_leaves(31);
  graph.points.push_back({"n2.gpu1", 2, Kind::Gpu});
  const std::string svg = cluster_svg(graph, "lab");
  CHECK(count(svg, "<g class=\"node\">") == 3);
  CHECK(has(svg, "<title>n2: 2 GPUs</title>"));
  CHECK(has(svg, "28,30]: 1 GPUs each</title>"));
}

// The switches are told from last to first, so each pass over the lines finds one more.
TEST_CASE("each switch of a long chain to a NIC stands below the GPUs") {
  ClusterGraph graph;
  graph.nodes = {"n0"};
  graph.points = {{"n0.gpu0", 0, Kind::Gpu}, {"n0.nic0", 0, Kind::Nic}};
  for (int i = 0; i < 8; ++i) graph.points.push_back({fmt::format("n0.sw{}", i), 0, Kind::Switch});
  graph.lines = {{0, 9, 1e9}};
  for (int i = 9; i > 2; --i) graph.lines.push_back({i, i - 1, 1e9});
  graph.lines.push_back({2, 1, 1e9});
  const std::string svg = cluster_svg(graph, "chain");
  const auto y_of = [&](const std::string& name) {
    const std::size_t at = svg.find("<title>" + name + "</title><rect");
    return std::stod(svg.substr(svg.find("y=\"", at) + 3));
  };
  CHECK(y_of("n0.sw7") > y_of("n0.gpu0"));
  CHECK(y_of("n0.sw7") == y_of("n0.sw0"));
}

TEST_CASE("names are escaped, and the same graph is the same picture") {
  const std::string svg = cluster_svg(two_leaves(3), "a < b & c");
  CHECK(has(svg, "leaf&lt;1&gt;"));
  CHECK(has(svg, "<title>a &lt; b &amp; c</title>"));
  CHECK(!has(svg, "leaf<1>"));
  CHECK(svg == cluster_svg(two_leaves(3), "a < b & c"));
}

TEST_CASE("a node alone, on no switch, is drawn") {
  ClusterGraph graph;
  graph.nodes = {"n0"};
  graph.points = {{"n0.gpu0", 0, Kind::Gpu}, {"n0.gpu1", 0, Kind::Gpu}};
  graph.lines = {{0, 1, 25e9}};
  const std::string svg = cluster_svg(graph, "one");
  CHECK(count(svg, "<g class=\"node\">") == 1);
  CHECK(count(svg, "<g class=\"gpu\">") == 2);
  CHECK(!has(svg, "nan"));
}
