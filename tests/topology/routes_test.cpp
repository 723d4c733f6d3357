// Routes: shortest paths on regular fabrics, round failed links, and on graphs of any form.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/data_dir.h"
#include "topology/cluster.h"
#include "topology/listed_cables.h"
#include "topology/preset.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

using Names = std::vector<std::string>;

// Eight GPUs a node at 100 GB/s and 2 us, a NIC each at 10 GB/s and 5 us.
ClusterSpec eight_rails() {
  ClusterSpec spec;
  spec.gpus_per_node = spec.nics_per_node = 8;
  spec.intra_bytes_per_s = 100e9;
  spec.intra_latency_s = 2e-6;
  spec.nic_bytes_per_s = 10e9;
  spec.inter_latency_s = 5e-6;
  return spec;
}

Cluster joined(const ClusterSpec& spec, int gpus) {
  auto cluster = Cluster::build(spec, gpus);
  INFO((cluster ? "" : cluster.error().text()));
  REQUIRE(cluster.ok());
  return std::move(cluster).value();
}

Names route_names(const Cluster& cluster, int from, int to) {
  Names names;
  for (const LinkId link : cluster.route(DeviceId{from}, DeviceId{to}))
    names.push_back(cluster.link(link).name);
  return names;
}

// Fails the links of these names; gives the Error's text.
std::string fail(Cluster* cluster, const Names& names) {
  std::vector<LinkId> failed;
  for (int i = 0; i < cluster->links(); ++i) {
    for (const std::string& name : names) {
      if (cluster->link(LinkId{i}).name == name) failed.push_back(LinkId{i});
    }
  }
  REQUIRE(failed.size() == names.size());
  const Status status = cluster->fail_links(failed);
  return status.ok() ? "" : status.error().text();
}

// As the shape gives it: through the node's switch, or up by the GPU's own NIC, through its leaf,
// through the spine where the other leaf is another one, and down the same way.
Names by_shape(const ClusterSpec& spec, int from, int to) {
  const int g = spec.gpus_per_node, n = spec.nics_per_node;
  const auto gpu = [&](int i) { return fmt::format("n{}.gpu{}", i / g, i % g); };
  const auto nic = [&](int i) { return i % g * n / g; };
  const auto leaf = [&](int i) {
    const int pod = i / g / spec.fabric.nodes_per_leaf;
    return spec.fabric.kind == Fabric::FatTree ? pod : pod * n + nic(i);
  };
  if (from == to) return {};
  if (from / g == to / g) return {gpu(from) + ".up", gpu(to) + ".down"};
  Names names;
  if (spec.nics_on_switch) names.push_back(gpu(from) + ".up");
  names.push_back(fmt::format("n{}.nic{}.up", from / g, nic(from)));
  if (spec.fabric.kind != Fabric::Star && leaf(from) != leaf(to)) {
    names.push_back(fmt::format("leaf{}.up", leaf(from)));
    names.push_back(fmt::format("leaf{}.down", leaf(to)));
  }
  names.push_back(fmt::format("n{}.nic{}.down", to / g, nic(to)));
  if (spec.nics_on_switch) names.push_back(gpu(to) + ".down");
  return names;
}

TEST_CASE("on a regular fabric the shortest paths are those that its shape gives") {
  const unsigned seed = 20240607;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto up_to = [&](unsigned most) { return 1 + static_cast<int>(random() % most); };
  for (int i = 0; i < 200; ++i) {
    ClusterSpec spec = eight_rails();
    spec.nics_per_node = up_to(4);
    spec.gpus_per_node = spec.nics_per_node * up_to(3);
    spec.fabric.kind = static_cast<Fabric::Kind>(random() % 3);
    spec.fabric.nodes_per_leaf = up_to(3);
    spec.nics_on_switch = random() % 2 == 0;
    const int gpus = spec.gpus_per_node * up_to(6);
    const Cluster cluster = joined(spec, gpus);
    for (int from = 0; from < gpus; ++from) {
      for (int to = 0; to < gpus; ++to)
        REQUIRE(route_names(cluster, from, to) == by_shape(spec, from, to));
    }
  }
}

TEST_CASE("a GPU without its NIC sends through its neighbour's, a hop over NVLink before") {
  Cluster cluster = joined(eight_rails(), 16);
  REQUIRE(cluster.nodes_alike());
  REQUIRE(fail(&cluster, {"n0.nic0.up", "n0.nic0.down"}).empty());
  CHECK(!cluster.nodes_alike());
  CHECK(route_names(cluster, 0, 8) ==
        Names{"n0.gpu0.up", "n0.gpu1.down", "n0.nic1.up", "n1.nic0.down"});
  CHECK(route_names(cluster, 8, 0) ==
        Names{"n1.nic0.up", "n0.nic1.down", "n0.gpu1.up", "n0.gpu0.down"});
  // A message inside the node and one between nodes: 2 + 5 us. Others keep their routes.
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{8}) == 7'000);
  CHECK(cluster.latency_ns(DeviceId{1}, DeviceId{8}) == 5'000);
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{1}) == 2'000);
  for (int from = 1; from < 8; ++from)
    CHECK(route_names(cluster, from, 8) == by_shape(eight_rails(), from, 8));
}

TEST_CASE("a ring that loses a NIC takes twice the time: two of its rings share the next one") {
  // Eight rings of 2 x 15/16 of the bytes in all, each over a NIC of its own: 15/64 of the bytes
  // over 10 GB/s. With NIC 0 gone NIC 1 carries two of them.
  std::vector<DeviceId> devices;
  for (int i = 0; i < 16; ++i) devices.push_back(DeviceId{i});
  Cluster cluster = joined(eight_rails(), 16);
  const double before = traffic(cluster, CommKind::AllReduce, devices).seconds_per_byte;
  CHECK(before == Approx(15.0 / 64 / 10e9));
  REQUIRE(fail(&cluster, {"n0.nic0.up", "n0.nic0.down"}).empty());
  CHECK(traffic(cluster, CommKind::AllReduce, devices).seconds_per_byte == Approx(2 * before));
}

TEST_CASE("a GPU that has lost its way to the node's switch goes round by the NICs") {
  Cluster cluster = joined(eight_rails(), 16);
  REQUIRE(fail(&cluster, {"n0.gpu0.up"}).empty());
  CHECK(route_names(cluster, 0, 1) == Names{"n0.nic0.up", "n0.nic1.down"});
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{1}) == 5'000);
  CHECK(route_names(cluster, 1, 0) == Names{"n0.gpu1.up", "n0.gpu0.down"});  // that way is whole
  CHECK(route_names(cluster, 0, 8) == Names{"n0.nic0.up", "n1.nic0.down"});
}

TEST_CASE(
    "behind a switch the next NIC is as near, and without the wire to the switch nothing is") {
  ClusterSpec spec = eight_rails();
  spec.nics_per_node = 2;
  spec.nics_on_switch = true;
  Cluster cluster = joined(spec, 16);
  REQUIRE(fail(&cluster, {"n0.nic0.up"}).empty());
  const Names round = {"n0.gpu0.up", "n0.nic1.up", "n1.nic0.down", "n1.gpu0.down"};
  CHECK(route_names(cluster, 0, 8) == round);
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{8}) == 5'000);
  CHECK(fail(&cluster, {"n0.gpu3.up"}) == "there is no other way from n0.gpu3 to n0.gpu0");
  CHECK(route_names(cluster, 0, 8) == round);  // refused, so as before
}

TEST_CASE("a leaf without its uplink is left by another rail, and in a fat tree by none") {
  ClusterSpec spec = eight_rails();
  spec.gpus_per_node = spec.nics_per_node = 2;
  spec.fabric = {Fabric::RailOptimised, 2, 1};
  Cluster rails = joined(spec, 8);
  REQUIRE(fail(&rails, {"leaf0.up"}).empty());
  CHECK(route_names(rails, 0, 2) == Names{"n0.nic0.up", "n1.nic0.down"});
  CHECK(route_names(rails, 0, 4) == Names{"n0.gpu0.up", "n0.gpu1.down", "n0.nic1.up", "leaf1.up",
                                          "leaf2.down", "n2.nic0.down"});
  spec.fabric.kind = Fabric::FatTree;
  Cluster tree = joined(spec, 8);
  CHECK(fail(&tree, {"leaf0.up"}) == "there is no other way from n0.gpu0 to n2.gpu0");
}

TEST_CASE("a GPU sends by the NIC in the receiver's place where a node has rails") {
  ClusterSpec spec = eight_rails();
  const auto sender = [&](int from, int to) {
    return index(joined(spec, 32).sender(DeviceId{from}, DeviceId{to}));
  };
  CHECK(sender(0, 9) == 0);  // all NICs hang on one switch
  spec.fabric = {Fabric::RailOptimised, 2, 8};
  CHECK(sender(0, 9) == 1);
  CHECK(sender(15, 2) == 10);
  CHECK(sender(0, 8) == 0);
  CHECK(sender(0, 1) == 0);
  CHECK(sender(0, 17) == 1);  // to another pod, by the spine from any rail
  // GPUs 0 and 1 have no NVLink in common, 0 and 2 have.
  spec.nvlinks = parse_nvlink_adjacency(
                     "00222222 00222222 22022222 22202222 22220222 22222022 22222202 22222220")
                     .value();
  CHECK(sender(0, 9) == 0);
  CHECK(sender(0, 10) == 2);
  spec.nvlinks.clear();
  spec.nics_on_switch = true;  // PXN goes by NVLink alone
  CHECK(sender(0, 9) == 0);
  spec.nics_on_switch = false;
  spec.fabric.kind = Fabric::FatTree;
  CHECK(sender(0, 9) == 0);
  CHECK(sender(0, 17) == 0);
}

// A cluster that the repository has as an example.
Cluster listed(const std::string& name) {
  const auto cables = read_cables(data_dir() + "/scenarios/clusters/" + name + ".csv");
  INFO((cables ? "" : cables.error().text()));
  REQUIRE(cables.ok());
  ClusterSpec spec;
  spec.cables = cables.value();
  spec.gpus_per_node = gpus_per_node(*spec.cables).value();
  return joined(spec, 2);
}

TEST_CASE("on two rails that never meet a GPU reaches the other one by its neighbour's NIC") {
  const Cluster cluster = listed("two-rails");
  CHECK(cluster.gpus() == 4);
  CHECK(cluster.nodes() == 2);
  CHECK(route_names(cluster, 0, 1) == Names{"n0.gpu0.n0.up", "n0.gpu1.n0.down"});
  CHECK(route_names(cluster, 0, 2) == Names{"n0.gpu0.n0.nic0.up", "n0.nic0.rail0.up",
                                            "n1.nic0.rail0.down", "n1.gpu0.n1.nic0.down"});
  CHECK(route_names(cluster, 0, 3) == Names{"n0.gpu0.n0.up", "n0.gpu1.n0.down",
                                            "n0.gpu1.n0.nic1.up", "n0.nic1.rail1.up",
                                            "n1.nic1.rail1.down", "n1.gpu1.n1.nic1.down"});
  // The links' latencies: 0 + 2.5 + 2.5 + 0 us, and 1 + 1 inside the node before.
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{2}) == 5'000);
  CHECK(cluster.latency_ns(DeviceId{0}, DeviceId{3}) == 7'000);
  // 1 GB over the rail's 10 GB/s.
  CHECK(transfer_ns(cluster, 1'000'000'000, DeviceId{0}, DeviceId{3}) == 100'000'000 + 7'000);
}

TEST_CASE("on a torus routes have as many hops as the rings between, and spread over equal ways") {
  Cluster cluster = listed("torus");
  const auto round = [](int a, int b) {
    const int there = (b - a + 4) % 4;
    return std::min(there, 4 - there);
  };
  for (int from = 0; from < 16; ++from) {
    for (int to = 0; to < 16; ++to) {
      const int hops = round(from % 4, to % 4) + round(from / 4, to / 4);
      CHECK(route_names(cluster, from, to).size() ==
            static_cast<std::size_t>(hops + 2) * (from != to));
    }
  }
  // Once round the back.
  CHECK(route_names(cluster, 0, 3) ==
        Names{"n0.gpu0.r0.0.up", "r3.0.r0.0.down", "n3.gpu0.r3.0.down"});
  // To r2.1 r0.0 has three ways on, r0.1, r1.0 and r3.0: 6 modulo 3 is the first. r0.1 has two,
  // r1.1 and r3.1: in the middle of the way the number is still 6, and 6 modulo 2 the first.
  CHECK(route_names(cluster, 0, 6) == Names{"n0.gpu0.r0.0.up", "r0.0.r0.1.up", "r0.1.r1.1.up",
                                            "r1.1.r2.1.up", "n6.gpu0.r2.1.down"});
  // To r2.3 r0.3, r1.0 and r3.0: 14 modulo 3 is the last; then r2.0 or r3.3: 14 modulo 2.
  CHECK(route_names(cluster, 0, 14) == Names{"n0.gpu0.r0.0.up", "r3.0.r0.0.down", "r2.0.r3.0.down",
                                             "r2.3.r2.0.down", "n14.gpu0.r2.3.down"});
  // Without that cable three hops: r0.1, r0.3 or r3.0 first, 1 modulo 3 is r0.3.
  REQUIRE(fail(&cluster, {"r0.0.r1.0.up", "r0.0.r1.0.down"}).empty());
  CHECK(route_names(cluster, 0, 1) == Names{"n0.gpu0.r0.0.up", "r0.3.r0.0.down", "r0.3.r1.3.up",
                                            "r1.3.r1.0.up", "n1.gpu0.r1.0.down"});
}

// One level of a fabric: each of `below` switches is joined to each of `above` by `cables`.
void join_levels(const Names& below, const Names& above, int cables,
                 std::vector<ListedCable>* all) {
  for (const std::string& from : below) {
    for (const std::string& to : above)
      for (int i = 0; i < cables; ++i) all->push_back({from, to, 10e9});
  }
}

// Returns the most routes that share a link when every GPU sends to the one `shift` further on.
int most_on_one_link(const Cluster& cluster, int shift) {
  std::vector<int> routes(cluster.links());
  for (int from = 0; from < cluster.gpus(); ++from) {
    const int to = (from + shift) % cluster.gpus();
    for (const LinkId link : cluster.route(DeviceId{from}, DeviceId{to})) ++routes[index(link)];
  }
  return *std::ranges::max_element(routes);
}

Cluster cabled(const std::vector<ListedCable>& cables, int gpus_per_node, int gpus) {
  ClusterSpec spec;
  spec.cables = std::make_shared<std::vector<ListedCable>>(cables);
  spec.gpus_per_node = gpus_per_node;
  return joined(spec, gpus);
}

TEST_CASE("in a fat tree that never blocks no two GPUs share a cable when all send one shift on") {
  // Two levels with parallel cables: 4 leaves with 32 GPUs each, 4 spines, 8 cables to each.
  std::vector<ListedCable> cables;
  const Names spines = {"spine0", "spine1", "spine2", "spine3"};
  for (int gpu = 0; gpu < 128; ++gpu)
    cables.push_back(
        {fmt::format("n{}.gpu{}", gpu / 8, gpu % 8), fmt::format("l{}", gpu / 32), 10e9});
  join_levels({"l0", "l1", "l2", "l3"}, spines, 8, &cables);
  const Cluster two = cabled(cables, 8, 128);
  for (int shift = 8; shift < 128; shift += 8) CHECK(most_on_one_link(two, shift) == 1);

  // Three levels: two pods of two leaves with 4 GPUs each, two spines a pod, and cores that join
  // all spines or those of one number.
  for (const bool joins_all : {true, false}) {
    cables.clear();
    for (int gpu = 0; gpu < 16; ++gpu)
      cables.push_back({fmt::format("n{}.gpu0", gpu), fmt::format("l{}", gpu / 4), 10e9});
    for (const int pod : {0, 1}) {
      const Names above = {fmt::format("s{}", 2 * pod), fmt::format("s{}", 2 * pod + 1)};
      join_levels({fmt::format("l{}", 2 * pod), fmt::format("l{}", 2 * pod + 1)}, above, 2,
                  &cables);
      join_levels({above[0]}, {"c0", "c1"}, 2, &cables);
      join_levels({above[1]}, joins_all ? Names{"c0", "c1"} : Names{"c2", "c3"}, 2, &cables);
    }
    const Cluster three = cabled(cables, 1, 16);
    INFO("cores join all spines: " << joins_all);
    for (int shift = 1; shift < 16; ++shift) CHECK(most_on_one_link(three, shift) == 1);
  }
}

TEST_CASE("on rails that never block no two GPUs of a rail share a cable") {
  // Two units of 8 rails with 8 nodes each; every leaf has 2 cables to each of 4 spines.
  std::vector<ListedCable> cables;
  Names leaves;
  for (int gpu = 0; gpu < 128; ++gpu) {
    leaves.push_back(fmt::format("u{}r{}", gpu / 64, gpu % 8));
    cables.push_back({fmt::format("n{}.gpu{}", gpu / 8, gpu % 8), leaves.back(), 10e9});
  }
  std::ranges::sort(leaves);
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  join_levels(leaves, {"spine0", "spine1", "spine2", "spine3"}, 2, &cables);
  const Cluster rails = cabled(cables, 8, 128);
  for (int shift = 8; shift < 128; shift += 8) CHECK(most_on_one_link(rails, shift) == 1);
}

TEST_CASE("on a dragonfly routes take the one link between two groups, or go by a third") {
  Cluster cluster = listed("dragonfly");
  CHECK(route_names(cluster, 0, 1) == Names{"n0.gpu0.g0.r0.up", "n1.gpu0.g0.r0.down"});
  CHECK(route_names(cluster, 0, 8) ==
        Names{"n0.gpu0.g0.r0.up", "g0.r0.g0.r1.up", "g0.r1.g2.r0.up", "n8.gpu0.g2.r0.down"});
  CHECK(route_names(cluster, 4, 10) ==
        Names{"n4.gpu0.g1.r0.up", "g1.r0.g1.r1.up", "g1.r1.g2.r1.up", "n10.gpu0.g2.r1.down"});
  // 0.5 + 0.2 + 1 + 0.5 us, and 1 GB over the 12.5 GB/s between groups.
  CHECK(transfer_ns(cluster, 1'000'000'000, DeviceId{0}, DeviceId{8}) == 80'000'000 + 2'200);
  REQUIRE(fail(&cluster, {"g0.r1.g2.r0.up", "g0.r1.g2.r0.down"}).empty());
  CHECK(route_names(cluster, 0, 8) == Names{"n0.gpu0.g0.r0.up", "g0.r0.g1.r0.up", "g1.r0.g1.r1.up",
                                            "g1.r1.g2.r1.up", "g2.r0.g2.r1.down",
                                            "n8.gpu0.g2.r0.down"});
  CHECK(fail(&cluster, {"n3.gpu0.g0.r1.up"}) == "there is no other way from n3.gpu0 to n0.gpu0");
}

TEST_CASE("cables that join no cluster are refused") {
  const auto refused = [](const std::vector<ListedCable>& cables, int gpus = 1) {
    ClusterSpec spec;
    spec.gpus_per_node = 1;
    spec.cables = std::make_shared<std::vector<ListedCable>>(cables);
    const auto cluster = Cluster::build(spec, gpus);
    REQUIRE(!cluster.ok());
    return cluster.error().text();
  };
  const ListedCable one{"n0.gpu0", "s", 1e9}, two{"n1.gpu0", "s", 1e9};
  CHECK(refused({one, two}, 3) == "found gpus = 3, expected 1 to 2, as the cables join");
  CHECK(refused({one, {"n0.gpu1", "s", 1e9}}) ==
        "found gpus_per_node = 1, expected 2, as the cables join");
  CHECK(refused({one, {"n2.gpu0", "s", 1e9}}) ==
        "found node n2, expected nodes n0, n1, ... numbered through");
  CHECK(refused({one, two, {"n0", "n1", 1e9}}) ==
        "found a cable from 'n0' to 'n1', expected a switch between nodes");
  CHECK(refused({one, {"n1.gpu0", "t", 1e9}}) ==
        "found no way from n0.gpu0 to n1.gpu0, expected cables that join all GPUs");
}

}  // namespace
}  // namespace tandem
