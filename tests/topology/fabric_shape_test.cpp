// Listed cables by hosts' names, what their fabric is like, and clusters as graphs to be drawn.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <memory>

#include "base/file.h"
#include "tests/folder.h"
#include "topology/fabric_shape.h"
#include "topology/listed_cables.h"

namespace tandem {
namespace {

using Names = std::vector<std::string>;

// Hosts a10 and a9 on leaf1 and host b1 on leaf2, a NIC each; two cables from leaf1 to the spine.
const std::string kHosts =
    "from,to,GBps,latency_us,efficiency\n"
    "a10.gpu0,a10.nvswitch,100,1,\n"
    "a10.gpu0,a10.nic_mlx5_0,40,0,1\n"
    "a10.nic_mlx5_0,leaf1,50,2,\n"
    "a9.gpu0,a9.nvswitch,100,1,\n"
    "a9.gpu0,a9.nic_mlx5_0,40,0,0.5\n"
    "a9.nic_mlx5_0,leaf1,50,2,\n"
    "b1.gpu0,b1.nic_mlx5_0,40,0,\n"
    "b1.nic_mlx5_0,leaf2,50,2,\n"
    "leaf1,spine,25,0,\n"
    "leaf1,spine,25,0,\n"
    "leaf2,spine,50,0,\n";

std::vector<ListedCable> read(const std::string& text) {
  const Folder folder;
  const auto cables = read_cables(folder.with("links.csv", text));
  INFO((cables ? "" : cables.error().text()));
  REQUIRE(cables.ok());
  return **cables;
}

std::string refused(const std::string& text) {
  const Folder folder;
  const auto cables = read_cables(folder.with("links.csv", text));
  REQUIRE(!cables.ok());
  const std::string fault = cables.error().text();
  return fault.substr(fault.find("links.csv") + 9);
}

Cluster built(const std::string& text) {
  ClusterSpec spec;
  spec.gpus_per_node = 1;
  spec.intra_efficiency = 0.8;
  spec.inter_efficiency = 0.9;
  spec.cables = std::make_shared<std::vector<ListedCable>>(read(text));
  auto cluster = Cluster::build(spec, 1);
  INFO((cluster ? "" : cluster.error().text()));
  REQUIRE(cluster.ok());
  return std::move(cluster).value();
}

}  // namespace

TEST_CASE("what stands before .gpu0 is a node, in the natural order of the names") {
  CHECK(node_names(read(kHosts)).value() == Names{"a9", "a10", "b1"});
  const Cluster cluster = built(kHosts);
  CHECK(cluster.gpus() == 3);
  CHECK(cluster.nodes() == 3);
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).size() == 4);  // by leaf1
  CHECK(cluster.route(DeviceId{0}, DeviceId{2}).size() == 6);  // and the spine and leaf2
  const Cluster dotted =
      built("from,to,GBps,latency_us\nr.n1.gpu0,r,1,0\nr.n2.gpu0,r.n2.nic0,1,0\nr.n2.nic0,r,1,0\n");
  CHECK(dotted.nodes() == 2);
  CHECK(dotted.route(DeviceId{1}, DeviceId{0}).size() == 3);
}

TEST_CASE("an efficiency of its own stands in place of that of all links inside nodes") {
  const Cluster cluster = built(kHosts);
  std::map<std::string, double> rates;
  for (int i = 0; i < cluster.links(); ++i)
    rates[cluster.link(LinkId{i}).name] = cluster.link(LinkId{i}).bytes_per_s;
  CHECK(rates.at("a10.gpu0.a10.nvswitch.up") == Approx(0.8 * 100e9));
  CHECK(rates.at("a10.gpu0.a10.nic_mlx5_0.up") == Approx(40e9));
  CHECK(rates.at("a9.gpu0.a9.nic_mlx5_0.down") == Approx(20e9));
  CHECK(rates.at("b1.nic_mlx5_0.leaf2.up") == Approx(0.9 * 50e9));
}

TEST_CASE("a leaf's oversubscription is its down-links over its uplinks") {
  const auto shape = fabric_shape(read(kHosts));
  REQUIRE(shape.ok());
  CHECK(shape->switches == 3);
  REQUIRE(shape->leaves.size() == 2);
  CHECK(shape->leaves[0].name == "leaf1");
  CHECK(shape->leaves[0].down_links == 2);
  CHECK(shape->leaves[0].up_links == 2);
  CHECK(shape->leaves[0].oversubscription() == Approx(100.0 / 50));
  CHECK(shape->leaves[1].oversubscription() == Approx(1));
}

TEST_CASE("nodes are as far apart as the fewest switches between them") {
  const auto shape = fabric_shape(read(kHosts));
  REQUIRE(shape.ok());
  CHECK(shape->pairs == std::map<int, std::int64_t>{{1, 1}, {3, 2}});
}

TEST_CASE("links of nodes that are none are refused at their line") {
  const std::string head = "from,to,GBps,latency_us,efficiency\n";
  CHECK(refused(head + "a.gpu0,b.gpu0,1,0,\n") ==
        ":2: found a cable from 'a.gpu0' to 'b.gpu0', expected a switch between nodes");
  CHECK(refused(head + "a.gpu0,s,1,0,\na.gpu0,s,1,0,0.5\n") ==
        ":3: found a cable from 'a.gpu0' to 's', expected an efficiency inside nodes alone");
  CHECK(refused("from,to,GBps,latency_us,efficency\na.gpu0,s,1,0,1\n") ==
        ": found a column 'efficency', expected from, to, GBps, latency_us and perhaps efficiency; "
        "the nearest is 'efficiency'");
  CHECK(refused(head + "a.gpu0,s,1,0,1.5\n") == ":2: found an efficiency outside 0 to 1");
  CHECK(refused(head + "a.gpu0,s,1,0,\nb.gpu0,s,1,0,\nb.gpu1,s,1,0,\n") ==
        ": found GPU b.gpu1, expected GPUs gpu0, gpu1, ... on each node, as many on each");
  CHECK(refused(head + "a.gpu01,a,1,0,\na.gpu1,a,1,0,\n") ==
        ": found 'a.gpu01' and 'a.gpu1', expected one name for a GPU");
  CHECK(refused(head + "a.nic0,s,1,0,\n") == ": found 0 GPUs, expected as many on each node");
  CHECK(refused(head + "n0.gpu0,s,1,0,\nn1.nic0,s,1,0,\n") ==
        ": found n1.nic0, expected GPUs on its node");
}

TEST_CASE("hosts may be called n1 and n03, and a switch n2, where names are known to be hosts'") {
  const std::string text = "from,to,GBps,latency_us\nn03.gpu0,n2,1,0\nn1.gpu0,n2,1,0\n";
  CHECK(refused(text) == ": found node n1, expected nodes n0, n1, ... numbered through");
  const Folder folder;
  const auto cables = read_cables(folder.with("links.csv", text), true);
  REQUIRE(cables.ok());
  CHECK(need_hosts(**cables));
  CHECK(node_names(**cables).value() == Names{"n1", "n03"});
  ClusterSpec spec;
  spec.gpus_per_node = 1;
  spec.cables = *cables;
  CHECK(!Cluster::build(spec, 2).ok());
  spec.has_hosts = true;
  CHECK(Cluster::build(spec, 2).ok());
  CHECK(!need_hosts(read("from,to,GBps,latency_us\nn0.gpu0,s,1,0\nn1.gpu0,s,1,0\n")));
  CHECK(!need_hosts(read(kHosts)));
}

TEST_CASE("NICs that no route takes are counted") {
  CHECK(idle_nics(built(kHosts)).empty());
  std::string text = "from,to,GBps,latency_us\n";
  for (const char* node : {"n0", "n1"})
    for (int nic = 0; nic < 3; ++nic)
      text += fmt::format("{0}.gpu0,{0}.nic{1},50,0\n{0}.nic{1},s{2},10,2\n", node, nic, nic % 2);
  CHECK(idle_nics(built(text)).starts_with("3 NICs a node, 1 carries traffic: "));
  CHECK(idle_nics(built("from,to,GBps,latency_us\nn0.gpu0,s,1,0\n")).empty());  // one node
  // A NIC that has lost its cable does not count.
  Cluster cluster = built(text);
  REQUIRE(cluster.fail_links(std::vector<LinkId>{LinkId{6}, LinkId{7}}).ok());
  CHECK(idle_nics(cluster).starts_with("2 NICs a node, 1 carries traffic: "));
}

TEST_CASE("a NIC that leads to some nodes alone is not idle") {
  std::string text = "from,to,GBps,latency_us\n";
  for (const char* nic :
       {"n0.nic0,a", "n0.nic1,b", "n1.nic0,a", "n1.nic1,c", "n2.nic0,b", "n2.nic1,c"})
    text +=
        fmt::format("{0}.gpu0,{1},50,0\n{2},10,2\n", std::string(nic, 2), std::string(nic, 7), nic);
  CHECK(idle_nics(built(text)).empty());
}

TEST_CASE("a graph to be drawn has a line for each cable and calls nodes by their names") {
  const ClusterGraph graph = built(kHosts).graph();
  CHECK(graph.nodes == Names{"a9", "a10", "b1"});
  CHECK(graph.lines.size() == 11);
  const std::string dot = dot_of(graph);
  CHECK(dot.find("label=\"a10\";") != std::string::npos);
  CHECK(dot.find("\"b1.nic_mlx5_0\" -- \"leaf2\" [label=\"45 GB/s\"];") != std::string::npos);
}

}  // namespace tandem
