// The cluster's graph, its routes, and what operations put on links.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "base/data_dir.h"
#include "tests/topology/built_cluster.h"
#include "topology/cluster.h"
#include "topology/preset.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

constexpr CommKind kCollectives[] = {CommKind::AllReduce, CommKind::ReduceScatter,
                                     CommKind::AllGather, CommKind::AllToAll};

// Eight GPUs a node at 100 GB/s and 2 us, NICs at 10 GB/s and 5 us: round numbers to derive from.
ClusterSpec round_spec(int nics_per_node = 8) {
  ClusterSpec spec;
  spec.name = "round";
  spec.gpus_per_node = 8;
  spec.intra_bytes_per_s = 100e9;
  spec.intra_latency_s = 2e-6;
  spec.nics_per_node = nics_per_node;
  spec.nic_bytes_per_s = 10e9;
  spec.inter_latency_s = 5e-6;
  return spec;
}

std::vector<std::string> names(const Cluster& cluster, const std::vector<LinkId>& links) {
  std::vector<std::string> result;
  for (const LinkId link : links) result.push_back(cluster.link(link).name);
  return result;
}

std::string error_of(ClusterSpec spec, int gpus) {
  auto cluster = Cluster::build(spec, gpus);
  return cluster ? "" : cluster.error().text();
}

using Names = std::vector<std::string>;

TEST_CASE("a route inside a node goes over the switch, between nodes over the NICs") {
  const Cluster cluster = build(round_spec(4), 16);
  CHECK(cluster.nodes() == 2);
  CHECK(cluster.node_of(DeviceId{8}) == NodeId{1});
  CHECK(names(cluster, cluster.route(DeviceId{1}, DeviceId{3})) ==
        Names{"n0.gpu1.up", "n0.gpu3.down"});
  // GPU i uses NIC i 4/8: GPU 3 of node 0 NIC 1, GPU 6 of node 1 NIC 3.
  CHECK(names(cluster, cluster.route(DeviceId{3}, DeviceId{14})) ==
        Names{"n0.nic1.up", "n1.nic3.down"});
  CHECK(cluster.route(DeviceId{5}, DeviceId{5}).empty());
  // Two directed links for each of 16 GPUs and 8 NICs.
  CHECK(cluster.links() == 48);
}

TEST_CASE("NICs on the switch share the GPU's one wire") {
  ClusterSpec spec = round_spec(1);
  spec.nics_on_switch = true;
  const Cluster cluster = build(spec, 16);
  CHECK(names(cluster, cluster.route(DeviceId{3}, DeviceId{14})) ==
        Names{"n0.gpu3.up", "n0.nic0.up", "n1.nic0.down", "n1.gpu6.down"});
}

TEST_CASE("a transfer takes L + S/B, its latency once and not per hop") {
  const Cluster cluster = build(round_spec(), 16);
  // 1 GB over 100 GB/s and 2 us; over 10 GB/s and 5 us.
  CHECK(transfer_ns(cluster, 1'000'000'000, DeviceId{0}, DeviceId{1}) == 10'000'000 + 2'000);
  CHECK(transfer_ns(cluster, 1'000'000'000, DeviceId{0}, DeviceId{8}) == 100'000'000 + 5'000);
  CHECK(transfer_ns(cluster, 1'000'000'000, DeviceId{3}, DeviceId{3}) == 0);
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{8}) == 5'000);
}

TEST_CASE(
    "inside a node gathers, all-to-alls and pairs reach their share of an all-reduce's rings") {
  ClusterSpec spec = round_spec();
  spec.gather_efficiency = 0.8;
  spec.alltoall_efficiency = 0.5;
  spec.pair_efficiency = 0.7;
  const Cluster cluster = build(spec, 16);
  const auto bytes_ns = [&](CommKind kind, int gpus) {
    return collective_ns(cluster, kind, 800'000'000, devices(gpus)) -
           collective_ns(cluster, kind, 0, devices(gpus));
  };
  // All 8 of a node: 14/8 x 8 ms; 7/8 x 8 ms over 0.8 and over 0.5.
  CHECK(bytes_ns(CommKind::AllReduce, 8) == 14'000'000);
  CHECK(bytes_ns(CommKind::AllGather, 8) == 8'750'000);
  CHECK(bytes_ns(CommKind::AllToAll, 8) == 14'000'000);
  // Two: 8 ms over 0.7. Four: a third of what is missing, 2/4 - 2/8 of 1 - 2/8: 12 ms over 0.9.
  CHECK(bytes_ns(CommKind::AllReduce, 2) == Approx(8e6 / 0.7).margin(1));
  CHECK(bytes_ns(CommKind::AllReduce, 4) == Approx(12e6 / 0.9).margin(1));
  // Between nodes none of that holds.
  CHECK(collective_ns(cluster, CommKind::AllGather, 800'000'000, devices(16)) ==
        collective_ns(build(round_spec(), 16), CommKind::AllGather, 800'000'000, devices(16)));
}

TEST_CASE("efficiencies scale the links they name") {
  ClusterSpec spec = round_spec();
  spec.intra_efficiency = 0.5;
  spec.inter_efficiency = 0.25;
  const Cluster cluster = build(spec, 16);
  CHECK(cluster.link(cluster.route(DeviceId{0}, DeviceId{1})[0]).bytes_per_s == 50e9);
  CHECK(cluster.link(cluster.route(DeviceId{0}, DeviceId{8})[0]).bytes_per_s == 2.5e9);
}

TEST_CASE("a ring all-reduce on a star takes 2(n-1)/n S/B + 2(n-1) L") {
  const Cluster cluster = build(round_spec(), 8);
  // n = 8, S = 800 MB: 14/8 x 8 ms + 14 x 2 us; half of each for reduce-scatter and all-gather.
  CHECK(collective_ns(cluster, CommKind::AllReduce, 800'000'000, devices(8)) ==
        14'000'000 + 28'000);
  for (const CommKind kind : {CommKind::ReduceScatter, CommKind::AllGather}) {
    CHECK(collective_ns(cluster, kind, 800'000'000, devices(8)) == 7'000'000 + 14'000);
  }
  // As many bytes leave a GPU for its peers, to all of them at once.
  CHECK(collective_ns(cluster, CommKind::AllToAll, 800'000'000, devices(8)) == 7'000'000 + 2'000);
  // n = 2: 2/2 x 8 ms + 2 x 2 us. Alone: nothing.
  CHECK(collective_ns(cluster, CommKind::AllReduce, 800'000'000, devices(2)) == 8'000'000 + 4'000);
  CHECK(collective_ns(cluster, CommKind::AllReduce, 800'000'000, devices(1)) == 0);
}

TEST_CASE("a group with k ranks on each of two nodes uses k NICs") {
  const Cluster cluster = build(round_spec(), 16);
  for (const int k : {1, 2, 4, 8}) {
    INFO("k = " << k);
    std::vector<DeviceId> group = devices(k, 0, 8 / k);
    for (const DeviceId device : devices(k, 8, 8 / k)) group.push_back(device);
    const Traffic load = traffic(cluster, CommKind::AllReduce, group);
    std::set<std::string> nics;
    for (const Flow& flow : load.flows) {
      for (const std::string& link : names(cluster, flow.links)) {
        if (link.find(".nic") != std::string::npos) nics.insert(link);
      }
    }
    // Up and down, on both nodes.
    CHECK(static_cast<int>(nics.size()) == 4 * k);
    // n = 2k: each NIC carries 1/k of 2(n-1)/n, in 2(n-1) steps between nodes.
    CHECK(load.seconds_per_byte == Approx(2.0 * (2 * k - 1) / (2 * k) / k / 10e9));
    CHECK(load.latency_ns == 2 * (2 * k - 1) * 5'000);
    CHECK(load.between_nodes);
  }
}

TEST_CASE("rings of an even number of nodes stay on their rails") {
  ClusterSpec spec = round_spec();
  spec.fabric = {Fabric::RailOptimised, 4, 1};
  const Cluster cluster = build(spec, 32);
  for (const Flow& flow : traffic(cluster, CommKind::AllReduce, devices(32)).flows) {
    // Two links: no hop crosses a spine.
    CHECK(flow.links.size() == 2);
  }
}

TEST_CASE("rings that share a NIC become one flow of that multiplicity") {
  const Cluster cluster = build(round_spec(4), 16);
  const Traffic load = traffic(cluster, CommKind::AllReduce, devices(16));
  int between = 0;
  for (const Flow& flow : load.flows) {
    if (cluster.link(flow.links[0]).name.find(".nic") == std::string::npos) continue;
    ++between;
    CHECK(flow.multiplicity == 2);
    CHECK(flow.share == Approx(2.0 * 15 / 16 / 8));
  }
  CHECK(between == 8);
  CHECK(load.seconds_per_byte == Approx(2.0 * 15 / 16 / 4 / 10e9));
}

TEST_CASE("what a ring carries between nodes is charged at ring_efficiency, a send is not") {
  ClusterSpec spec = round_spec();
  spec.ring_efficiency = 0.25;
  const Cluster cluster = build(spec, 16);
  const std::vector<DeviceId> pair = {DeviceId{0}, DeviceId{8}};
  CHECK(traffic(cluster, CommKind::AllReduce, pair).seconds_per_byte == Approx(4 / 10e9));
  CHECK(traffic(cluster, CommKind::SendRecv, pair).seconds_per_byte == Approx(1 / 10e9));
  CHECK(traffic(cluster, CommKind::AllReduce, devices(2)).seconds_per_byte == Approx(1 / 100e9));
}

TEST_CASE("k rings make n hops of 2(n-1)/n in all, whatever group") {
  const unsigned seed = 20240607;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Cluster cluster = build(round_spec(4), 64);
  for (int round = 0; round < 200; ++round) {
    std::vector<DeviceId> group = devices(64);
    std::shuffle(group.begin(), group.end(), random);
    group.resize(2 + random() % 62);
    const double n = static_cast<double>(group.size());
    const Traffic load = traffic(cluster, CommKind::AllReduce, group);
    double hops = 0;
    std::map<LinkId, double> busy;
    std::set<std::vector<LinkId>> lists;
    for (const Flow& flow : load.flows) {
      hops += flow.share * flow.multiplicity;
      for (const LinkId link : flow.links) busy[link] += flow.share * flow.multiplicity;
      CHECK(lists.insert(flow.links).second);
    }
    CHECK(hops == Approx(2 * (n - 1)));
    double slowest = 0;
    for (const auto& [link, amount] : busy) {
      slowest = std::max(slowest, amount / cluster.link(link).bytes_per_s);
    }
    CHECK(load.seconds_per_byte == Approx(slowest));
  }
}

TEST_CASE(
    "an all-to-all sends 1/n to each other rank, also when it is too large to list the pairs") {
  ClusterSpec spec = round_spec();
  const Cluster cluster = build(spec, 64);
  // Of 64 ranks, 56 are on other nodes: a NIC carries 56/64. 63 steps between nodes.
  const Traffic large = traffic(cluster, CommKind::AllToAll, devices(64));
  CHECK(large.seconds_per_byte == Approx(56.0 / 64 / 10e9));
  CHECK(large.latency_ns == 63 * 5'000);
  CHECK(large.flows.size() <= static_cast<std::size_t>(cluster.links()));
  // Of 16, 8 are on the other node.
  const Traffic small = traffic(cluster, CommKind::AllToAll, devices(16));
  CHECK(small.seconds_per_byte == Approx(8.0 / 16 / 10e9));
  CHECK(small.flows.size() == 16 * 15);
}

TEST_CASE("eight peers that send over four shared NICs get half a NIC each") {
  const Cluster cluster = build(round_spec(4), 16);
  std::vector<std::vector<DeviceId>> sends;
  for (int i = 0; i < 8; ++i) sends.push_back({DeviceId{i}, DeviceId{8 + i}});
  const Traffic load = lockstep_traffic(cluster, CommKind::SendRecv, sends);
  CHECK(load.seconds_per_byte == 2 / 10e9);
  CHECK(load.latency_ns == 5'000);
}

TEST_CASE("in lock step the slowest link counts, not the one with most flows") {
  // Two leaves of two nodes with 4 NICs a node: an uplink of 80 GB/s carries 16 flows, a NIC of
  // 10 GB/s two: both would take 2/10 ns a byte at oversubscription 1; at 1/2 the uplink would win.
  ClusterSpec spec = round_spec(4);
  spec.fabric = {Fabric::FatTree, 2, 1};
  std::vector<std::vector<DeviceId>> sends;
  for (int i = 0; i < 16; ++i) sends.push_back({DeviceId{i}, DeviceId{16 + i}});
  CHECK(lockstep_traffic(build(spec, 32), CommKind::SendRecv, sends).seconds_per_byte ==
        Approx(2 / 10e9));
  spec.fabric.oversubscription = 2;
  const Traffic load = lockstep_traffic(build(spec, 32), CommKind::SendRecv, sends);
  CHECK(load.seconds_per_byte == Approx(16 / 40e9));
}

TEST_CASE("in lock step each takes its own time, and one alone what it takes alone") {
  // 0 to 1 inside the node, at 100 GB/s; 7 to 8 and 6 to 8 between nodes, into one NIC of 10 GB/s.
  const Cluster cluster = build(round_spec(), 16);
  const std::vector<std::vector<DeviceId>> mixed = {
      devices(2), {DeviceId{7}, DeviceId{8}}, {DeviceId{6}, DeviceId{8}}};
  const std::vector<Choices> each = lockstep_choices(cluster, CommKind::SendRecv, mixed);
  REQUIRE(each.size() == 3);
  CHECK_FALSE(each[0].back().between_nodes);
  CHECK(each[0].back().seconds_per_byte == 1 / 100e9);
  CHECK(each[0].back().latency_ns == 2'000);
  for (const int i : {1, 2}) {
    CHECK(each[i].back().between_nodes);
    CHECK(each[i].back().seconds_per_byte == 2 / 10e9);
    CHECK(each[i].back().latency_ns == 5'000);
  }
  const std::vector<std::vector<DeviceId>> one = {devices(16)};
  CHECK(lockstep_traffic(cluster, CommKind::AllReduce, one).seconds_per_byte ==
        Approx(traffic(cluster, CommKind::AllReduce, one[0]).seconds_per_byte));
  CHECK(lockstep_choices(cluster, CommKind::AllReduce, {}).empty());
}

TEST_CASE("a way by its number is the choice of that number") {
  ClusterSpec spec = round_spec();
  spec.trees = spec.nvls = true;
  spec.inter_low_latency = spec.intra_low_latency = {0.5, 0.4};
  const Cluster cluster = build(spec, 32);
  for (const auto& group : {devices(8), devices(32), devices(4, 0, 8)}) {
    for (const CommKind kind : kCollectives) {
      for (const Traffic& way : traffic_choices(cluster, kind, group)) {
        const Traffic same = traffic_by(cluster, kind, group, way.way);
        CHECK(same.way == way.way);
        CHECK(same.latency_ns == way.latency_ns);
        CHECK(same.seconds_per_byte == way.seconds_per_byte);
        REQUIRE(same.flows.size() == way.flows.size());
        for (std::size_t i = 0; i < way.flows.size(); ++i) {
          CHECK(same.flows[i].links == way.flows[i].links);
          CHECK(same.flows[i].share == way.flows[i].share);
        }
      }
    }
  }
}

TEST_CASE("data-parallel rings of all tensor ranks share the NICs that one ring would have alone") {
  // tp 8 on two nodes of 4 NICs: 8 groups {i, 8 + i}, each NIC carries two of them.
  const Cluster cluster = build(round_spec(4), 16);
  std::vector<std::vector<DeviceId>> groups;
  for (int i = 0; i < 8; ++i) groups.push_back({DeviceId{i}, DeviceId{8 + i}});
  const Traffic load = lockstep_traffic(cluster, CommKind::AllReduce, groups);
  CHECK(load.seconds_per_byte ==
        Approx(2 * traffic(cluster, CommKind::AllReduce, groups[0]).seconds_per_byte));
}

TEST_CASE("on a rail-optimised fabric a rail of a pod stays off the spine") {
  ClusterSpec spec = round_spec(4);
  spec.fabric = {Fabric::RailOptimised, 2, 1};
  const Cluster cluster = build(spec, 32);
  CHECK(names(cluster, cluster.route(DeviceId{0}, DeviceId{9})) ==
        Names{"n0.nic0.up", "n1.nic0.down"});
  // Rail 0 to rail 3; and the same rail of another pod: leaf 4 is rail 0 of pod 1.
  CHECK(names(cluster, cluster.route(DeviceId{0}, DeviceId{15})) ==
        Names{"n0.nic0.up", "leaf0.up", "leaf3.down", "n1.nic3.down"});
  CHECK(names(cluster, cluster.route(DeviceId{0}, DeviceId{16})) ==
        Names{"n0.nic0.up", "leaf0.up", "leaf4.down", "n2.nic0.down"});
}

TEST_CASE("oversubscription 2 halves a leaf's uplink") {
  for (const Fabric::Kind kind : {Fabric::RailOptimised, Fabric::FatTree}) {
    ClusterSpec spec = round_spec(4);
    double uplink[2];
    for (const int over : {1, 2}) {
      spec.fabric = {kind, 2, static_cast<double>(over)};
      const Cluster cluster = build(spec, 32);
      const auto route = cluster.route(DeviceId{0}, DeviceId{16});
      REQUIRE(route.size() == 4);
      uplink[over - 1] = cluster.link(route[1]).bytes_per_s;
    }
    // Two nodes hang on a leaf, with one NIC each (rail) or all four (fat tree).
    CHECK(uplink[0] == (kind == Fabric::FatTree ? 80e9 : 20e9));
    CHECK(uplink[1] == uplink[0] / 2);
  }
}

TEST_CASE("a faster link never slows a lone operation") {
  const unsigned seed = 7041776;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % (high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    ClusterSpec spec = round_spec(1 << pick(0, 3));
    spec.intra_bytes_per_s = pick(1, 400) * 1e9;
    spec.nic_bytes_per_s = pick(1, 50) * 1e9;
    spec.nics_on_switch = pick(0, 1) == 1;
    spec.fabric = {static_cast<Fabric::Kind>(pick(0, 2)), pick(1, 4),
                   static_cast<double>(pick(1, 4))};
    ClusterSpec faster = spec;
    (pick(0, 1) == 0 ? faster.intra_bytes_per_s : faster.nic_bytes_per_s) *=
        1 + pick(1, 100) / 50.0;
    const Cluster before = build(spec, 64);
    const Cluster after = build(faster, 64);
    std::vector<DeviceId> group = devices(64);
    std::shuffle(group.begin(), group.end(), random);
    group.resize(pick(2, 20));
    const Bytes bytes = pick(1, 1'000'000'000);
    CHECK(transfer_ns(after, bytes, group[0], group[1]) <=
          transfer_ns(before, bytes, group[0], group[1]));
    for (const CommKind kind : kCollectives) {
      CHECK(collective_ns(after, kind, bytes, group) <= collective_ns(before, kind, bytes, group));
    }
  }
}

TEST_CASE("bad sizes are errors that say what was found and what was expected") {
  CHECK(error_of(round_spec(), 12) == "found gpus = 12, expected a multiple of gpus_per_node = 8");
  CHECK(error_of(round_spec(3), 8) ==
        "found gpus_per_node = 8, expected a multiple of nics_per_node = 3");
  CHECK(error_of(round_spec(), 0) == "found gpus = 0, expected 1 to 1000000");
  CHECK(error_of(round_spec(), 2'000'000'000) == "found gpus = 2000000000, expected 1 to 1000000");
  CHECK(error_of(round_spec(0), 8) == "found nics_per_node = 0, expected 1 to 1000000");
  ClusterSpec spec = round_spec();
  spec.nic_bytes_per_s = 0;
  CHECK(error_of(spec, 8) == "found NIC bytes/s = 0, expected at least 1");
  spec = round_spec();
  spec.intra_efficiency = 1.5;
  CHECK(error_of(spec, 8) == "found intra_efficiency = 1.5, expected above 0 and at most 1");
  spec = round_spec();
  spec.inter_latency_s = -1;
  CHECK(error_of(spec, 8) == "found inter latency in s = -1, expected at least 0 and below 1000");
  spec = round_spec();
  spec.fabric.kind = Fabric::FatTree;
  CHECK(error_of(spec, 8) == "found nodes_per_leaf = 0, expected at least 1");
  spec.fabric = {Fabric::FatTree, 1, 0.5};
  CHECK(error_of(spec, 8) == "found oversubscription = 0.5, expected at least 1");
}

TEST_CASE("the first GPUs of a node have the NICs that they have with the others there") {
  const ClusterSpec spec = with_part_of_node(round_spec(2), 6);
  const Cluster cluster = build(spec, 12);
  CHECK(names(cluster, cluster.route(DeviceId{3}, DeviceId{10})) ==
        Names{"n0.nic0.up", "n1.nic1.down"});
  CHECK(cluster.links() == 2 * (12 + 4));
  // The six rings of a pass: four go by one NIC of 10 GB/s, so that all have 15 GB/s together,
  // 6/8 of what two NICs have. 12 GPUs send 11/12 of 12 GB.
  const Nanoseconds ns = collective_ns(cluster, CommKind::AllGather, 12'000'000'000, devices(12));
  CHECK(to_seconds(ns) == Approx(11.0 / 15).epsilon(1e-3));
  // With as many GPUs at each NIC as before, the share of the NICs is the same.
  CHECK(with_part_of_node(round_spec(4), 6).nics_per_node == 3);
  CHECK(with_part_of_node(with_part_of_node(round_spec(2), 6), 4).nics_per_node == 1);
  CHECK(with_part_of_node(round_spec(3), 6).gpus_per_node == 8);
}

TEST_CASE("fewer GPUs than a node's are one node") {
  const Cluster cluster = build(round_spec(4), 3);
  CHECK(cluster.gpus() == 3);
  CHECK(cluster.nodes() == 1);
  CHECK(cluster.route(DeviceId{0}, DeviceId{2}).size() == 2);
}

TEST_CASE("the dot picture shows every node, GPU and NIC, and the bandwidths") {
  ClusterSpec spec = round_spec(2);
  spec.fabric = {Fabric::FatTree, 2, 2};
  const std::string dot = build(spec, 24).dot();
  for (int node = 0; node < 3; ++node) {
    const std::string prefix = "\"n" + std::to_string(node);
    CHECK(dot.find("subgraph cluster_n" + std::to_string(node)) != std::string::npos);
    CHECK(dot.find(prefix + "\";") != std::string::npos);
    for (int i = 0; i < 8; ++i) {
      CHECK(dot.find(prefix + ".gpu" + std::to_string(i) + "\";") != std::string::npos);
    }
    for (int i = 0; i < 2; ++i) {
      CHECK(dot.find(prefix + ".nic" + std::to_string(i) + "\";") != std::string::npos);
    }
  }
  CHECK(dot.find("\"n2.gpu7\" -- \"n2\" [label=\"100 GB/s\"]") != std::string::npos);
  CHECK(dot.find("\"n0.nic0\" -- \"leaf0\" [label=\"10 GB/s\"]") != std::string::npos);
  // Two nodes' four NICs of 10 GB/s, halved.
  CHECK(dot.find("\"leaf1\" -- \"spine\" [label=\"20 GB/s\"]") != std::string::npos);
}

}  // namespace
}  // namespace tandem
