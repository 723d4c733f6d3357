// Collectives in closed form: ring shifts, hierarchical rings, reduction in the network, alone and
// in lock step.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "topology/cluster.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

constexpr double kNodeRate = 100e9, kNicRate = 10e9;  // bytes/s
constexpr Nanoseconds kNodeLatency_ns = 2'000, kNicLatency_ns = 5'000;

constexpr CommKind kHalves[] = {CommKind::ReduceScatter, CommKind::AllGather};

// Eight GPUs a node; round numbers to derive from.
ClusterSpec round_spec(Collectives collectives = Collectives::Ring, int nics_per_node = 8) {
  ClusterSpec spec;
  spec.name = "round";
  spec.gpus_per_node = 8;
  spec.intra_bytes_per_s = kNodeRate;
  spec.intra_latency_s = 2e-6;
  spec.nics_per_node = nics_per_node;
  spec.nic_bytes_per_s = kNicRate;
  spec.inter_latency_s = 5e-6;
  spec.collectives = collectives;
  return spec;
}

ClusterSpec in_network_spec(int nics_per_node = 8) {
  ClusterSpec spec = round_spec(Collectives::Ring, nics_per_node);
  spec.in_network_reduction = true;
  return spec;
}

Cluster build(const ClusterSpec& spec, int gpus) {
  auto cluster = Cluster::build(spec, gpus);
  REQUIRE(cluster.ok());
  return std::move(cluster).value();
}

std::vector<DeviceId> devices(std::initializer_list<int> numbers) {
  std::vector<DeviceId> result;
  for (const int number : numbers) result.push_back(DeviceId{number});
  return result;
}

// k ranks on each of the first nodes, from GPU `first` on in steps of 8 / k.
std::vector<DeviceId> group(int nodes, int k, int first = 0) {
  std::vector<DeviceId> result;
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < k; ++i) result.push_back(DeviceId{8 * node + first + i * 8 / k});
  }
  return result;
}

// What each link carries, per byte of the operation, by the link's name.
std::map<std::string, double> loads(const Cluster& cluster, const Traffic& traffic) {
  std::map<std::string, double> result;
  for (const Flow& flow : traffic.flows) {
    for (const LinkId link : flow.links)
      result[cluster.link(link).name] += flow.share * flow.multiplicity;
  }
  return result;
}

bool is_of(const std::string& link, const char* kind) { return link.find(kind) != link.npos; }

bool crosses(const Cluster& cluster, const Flow& flow) {
  return is_of(cluster.link(flow.links[0]).name, ".nic");
}

bool same(const Traffic& a, const Traffic& b) {
  return a.latency_ns == b.latency_ns && a.seconds_per_byte == b.seconds_per_byte &&
         std::ranges::equal(a.flows, b.flows, [](const Flow& x, const Flow& y) {
           return x.links == y.links && x.share == y.share && x.multiplicity == y.multiplicity;
         });
}

TEST_CASE("a ring shift inside a node takes L + S/B, all ranks at once") {
  const Cluster cluster = build(round_spec(), 8);
  // Each GPU sends 800 MB and gets as much: 8 ms at 100 GB/s, and one message's 2 us.
  CHECK(collective_ns(cluster, CommKind::RingShift, 800'000'000, group(1, 8)) == 8'000'000 + 2'000);
  CHECK(collective_ns(cluster, CommKind::RingShift, 800'000'000, group(1, 2)) == 8'000'000 + 2'000);
  CHECK(collective_ns(cluster, CommKind::RingShift, 800'000'000, group(1, 1)) == 0);
}

TEST_CASE("a ring shift over nodes keeps the order of its ranks") {
  const Cluster cluster = build(round_spec(), 24);
  // In order, one hop leaves each of three nodes: its NIC carries all of it.
  const Traffic load = traffic(cluster, CommKind::RingShift, group(3, 8));
  CHECK(load.flows.size() == 24);
  CHECK(std::ranges::count_if(load.flows, [&](const Flow& f) { return crosses(cluster, f); }) == 3);
  CHECK(load.seconds_per_byte == 1 / kNicRate);
  CHECK(load.latency_ns == kNicLatency_ns);
  CHECK(loads(cluster, load).at("n0.nic7.up") == 1);
  CHECK(loads(cluster, load).at("n1.nic0.down") == 1);
  // To and fro between two nodes every hop crosses, where a collective would sort its ranks.
  const auto zigzag = devices({0, 8, 1, 9, 2, 10});
  for (const Flow& flow : traffic(cluster, CommKind::RingShift, zigzag).flows)
    CHECK(crosses(cluster, flow));
}

TEST_CASE("ring shifts of tensor peers in lock step share the NICs") {
  // tp 2: the rings of the even and of the odd GPUs of two nodes. GPUs 6 and 7 leave through NIC 3
  // of 4, GPUs 0 and 1 are reached through NIC 0: two flows each. Inside, GPUs have their own.
  const Cluster cluster = build(round_spec(Collectives::Ring, 4), 16);
  const std::vector<std::vector<DeviceId>> rings = {group(2, 4), group(2, 4, 1)};
  const std::vector<Choices> load = lockstep_choices(cluster, CommKind::RingShift, rings);
  CHECK(traffic(cluster, CommKind::RingShift, rings[0]).seconds_per_byte == 1 / kNicRate);
  REQUIRE(load.size() == 1);
  CHECK(load[0].back().seconds_per_byte == 2 / kNicRate);
  CHECK(load[0].back().latency_ns == kNicLatency_ns);
}

TEST_CASE("hierarchical all-reduce: 2(k-1)/k inside, 2(n-1)/n of 1/k between nodes") {
  const Cluster cluster = build(round_spec(Collectives::Hierarchical), 32);
  for (const int n : {2, 3, 4}) {
    for (const int k : {2, 4, 8}) {
      INFO(n << " nodes, " << k << " ranks on each");
      const double inside = 2.0 * (k - 1) / k;
      const double between = 2.0 * (n - 1) / n / k;
      const Traffic load = traffic(cluster, CommKind::AllReduce, group(n, k));
      for (const auto& [link, amount] : loads(cluster, load))
        CHECK(amount == Approx(is_of(link, ".nic") ? between : inside));
      // 2nk links inside, as many between: each rank has its NIC.
      CHECK(loads(cluster, load).size() == static_cast<std::size_t>(4 * n * k));
      CHECK(load.seconds_per_byte == Approx(std::max(inside / kNodeRate, between / kNicRate)));
      CHECK(load.latency_ns == 2 * (k - 1) * kNodeLatency_ns + 2 * (n - 1) * kNicLatency_ns);
      CHECK(load.between_nodes);
      // Half of each phase.
      for (const CommKind kind : kHalves) {
        const Traffic half = traffic(cluster, kind, group(n, k));
        CHECK(half.seconds_per_byte == Approx(load.seconds_per_byte / 2));
        CHECK(half.latency_ns == load.latency_ns / 2);
      }
    }
  }
}

TEST_CASE("hierarchical: 16 ranks on two nodes, worked out by hand") {
  const Cluster cluster = build(round_spec(Collectives::Hierarchical), 16);
  // S = 800 MB, k = 8, n = 2. A GPU's link: 2 x 7/8 S = 1.4 GB at 100 GB/s, 14 ms. A NIC: 2 x 1/2 x
  // S/8 = 100 MB at 10 GB/s, 10 ms. Latency: 14 x 2 us + 2 x 5 us.
  CHECK(collective_ns(cluster, CommKind::AllReduce, 800'000'000, group(2, 8)) ==
        14'000'000 + 28'000 + 10'000);
  // Flat rings put 2 x 15/16 x S/8 = 187.5 MB on a NIC, 18.75 ms, in 30 x 5 us.
  CHECK(collective_ns(build(round_spec(), 16), CommKind::AllReduce, 800'000'000, group(2, 8)) ==
        18'750'000 + 150'000);
}

TEST_CASE("ranks of a node that share a NIC share it between nodes, hierarchical too") {
  const Cluster cluster = build(round_spec(Collectives::Hierarchical, 2), 16);
  // Eight ranks on two NICs: four flows of 2 x 1/2 x 1/8 on each.
  const Traffic load = traffic(cluster, CommKind::AllReduce, group(2, 8));
  CHECK(load.seconds_per_byte == Approx(0.5 / kNicRate));
  for (const Flow& flow : load.flows) CHECK(flow.multiplicity == (crosses(cluster, flow) ? 4 : 1));
}

TEST_CASE("groups without as many ranks, two or more, on several nodes stay in flat rings") {
  const Cluster flat = build(round_spec(), 24);
  const Cluster nested = build(round_spec(Collectives::Hierarchical), 24);
  const std::vector<DeviceId> groups[] = {group(1, 8), group(3, 1), devices({0, 1, 8}),
                                          devices({0, 1, 2, 8, 9, 16, 17, 18})};
  for (const auto& ranks : groups) {
    for (const CommKind kind : {CommKind::AllReduce, CommKind::ReduceScatter, CommKind::AllGather})
      CHECK(same(traffic(nested, kind, ranks), traffic(flat, kind, ranks)));
  }
  // And what is no ring stays what it is.
  for (const CommKind kind : {CommKind::AllToAll, CommKind::RingShift})
    CHECK(same(traffic(nested, kind, group(3, 8)), traffic(flat, kind, group(3, 8))));
}

TEST_CASE("rings between nodes are charged at ring_efficiency, hierarchical too") {
  ClusterSpec spec = round_spec(Collectives::Hierarchical);
  spec.ring_efficiency = 0.25;
  // A NIC: 2 x 1/2 x 1/8, four times. A GPU's link: 2 x 7/8 as ever.
  const Cluster cluster = build(spec, 16);
  const auto amounts = loads(cluster, traffic(cluster, CommKind::AllReduce, group(2, 8)));
  CHECK(amounts.at("n0.nic3.up") == Approx(0.5));
  CHECK(amounts.at("n0.gpu3.up") == Approx(1.75));
}

TEST_CASE("auto takes the faster for a large message, group by group") {
  // NICs limit: hierarchical has less for them. Slow links inside do: each GPU of a flat ring sends
  // 2 x 15/16 x 7/8 there, a hierarchical one 2 x 7/8.
  for (const double rate : {kNodeRate, 1e9}) {
    const auto time = [&](Collectives collectives) {
      ClusterSpec spec = round_spec(collectives);
      spec.intra_bytes_per_s = rate;
      return traffic(build(spec, 16), CommKind::AllReduce, group(2, 8)).seconds_per_byte;
    };
    const double flat = time(Collectives::Ring), nested = time(Collectives::Hierarchical);
    CHECK((nested < flat) == (rate == kNodeRate));
    CHECK(time(Collectives::Auto) == std::min(flat, nested));
  }
}

TEST_CASE("auto is never slower a byte than the others, whatever group and cluster") {
  const unsigned seed = 1123581321;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % (high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    ClusterSpec spec = round_spec(Collectives::Auto, 1 << pick(0, 3));
    spec.intra_bytes_per_s = pick(1, 100) * 1e9;
    spec.nics_on_switch = pick(0, 1) == 1;
    spec.fabric = {static_cast<Fabric::Kind>(pick(0, 2)), pick(1, 4),
                   static_cast<double>(pick(1, 4))};
    const auto ranks = group(pick(1, 5), 1 << pick(0, 3));
    const CommKind kind = static_cast<CommKind>(pick(1, 3));
    const Traffic chosen = traffic(build(spec, 64), kind, ranks);
    int equal = 0;
    for (const Collectives collectives : {Collectives::Ring, Collectives::Hierarchical}) {
      spec.collectives = collectives;
      const Traffic other = traffic(build(spec, 64), kind, ranks);
      REQUIRE(chosen.seconds_per_byte <= other.seconds_per_byte);
      equal += same(chosen, other);
    }
    REQUIRE(equal >= 1);
  }
}

TEST_CASE("reduced in the network, each byte goes up once and down once") {
  const Cluster cluster = build(in_network_spec(), 32);
  for (const int n : {2, 3, 4}) {
    for (const int k : {1, 2, 8}) {
      INFO(n << " nodes, " << k << " ranks on each");
      const Traffic load = traffic(cluster, CommKind::AllReduce, group(n, k));
      for (const auto& [link, amount] : loads(cluster, load))
        CHECK(amount == Approx(is_of(link, ".nic") ? 1.0 / k : 2.0 * (k - 1) / k));
      CHECK(load.seconds_per_byte ==
            Approx(std::max(1.0 / k / kNicRate, 2.0 * (k - 1) / k / kNodeRate)));
      CHECK(load.latency_ns == 2 * (k - 1) * kNodeLatency_ns + 2 * kNicLatency_ns);
      CHECK(load.between_nodes);
    }
  }
}

TEST_CASE("the network reduces only all-reduces of as many ranks on several nodes") {
  const Cluster plain = build(round_spec(), 24);
  const Cluster reducing = build(in_network_spec(), 24);
  for (const CommKind kind : {CommKind::ReduceScatter, CommKind::AllGather, CommKind::AllToAll})
    CHECK(same(traffic(reducing, kind, group(3, 8)), traffic(plain, kind, group(3, 8))));
  for (const auto& ranks : {group(1, 8), devices({0, 1, 8})}) {
    CHECK(same(traffic(reducing, CommKind::AllReduce, ranks),
               traffic(plain, CommKind::AllReduce, ranks)));
  }
}

TEST_CASE("an all-to-all keeps to its rails") {
  ClusterSpec spec = round_spec();
  const Cluster star = build(spec, 32);
  spec.fabric = {Fabric::RailOptimised, 4, 8};
  const Cluster rails = build(spec, 32);
  // Four nodes under one leaf a rail: spines carry nothing, and a NIC sends what it sends on a
  // star, 24 of 32 parts.
  const auto amounts = loads(rails, traffic(rails, CommKind::AllToAll, group(4, 8)));
  for (const auto& [link, amount] : amounts) CHECK(!is_of(link, "leaf"));
  CHECK(amounts.at("n0.nic3.up") == Approx(24.0 / 32));
  CHECK(loads(star, traffic(star, CommKind::AllToAll, group(4, 8))).at("n0.nic3.up") ==
        Approx(24.0 / 32));
  // So it is with many nodes, whose loads are summed link by link.
  const Cluster many = build({[&] {
                               spec.fabric.nodes_per_leaf = 40;
                               return spec;
                             }()},
                             320);
  const auto large = loads(many, traffic(many, CommKind::AllToAll, group(40, 8)));
  for (const auto& [link, amount] : large) CHECK(!is_of(link, "leaf"));
  CHECK(large.at("n0.nic3.up") == Approx(312.0 / 320));
  // GPU 8 has no member beside it to send to GPU 1 by.
  CHECK(std::ranges::any_of(loads(rails, traffic(rails, CommKind::AllToAll, devices({0, 1, 8}))),
                            [](const auto& load) { return is_of(load.first, "leaf"); }));
}

// Cables as those of a rail-optimised fabric with all nodes on one leaf a rail.
Cluster cabled_rails(const ClusterSpec& spec, int nodes) {
  auto cables = std::make_shared<std::vector<ListedCable>>();
  for (int i = 0; i < 8 * nodes; ++i) {
    const std::string node = fmt::format("n{}", i / 8), leaf = fmt::format("leaf{}", i % 8);
    const std::string gpu = fmt::format("{}.gpu{}", node, i % 8);
    const std::string nic = fmt::format("{}.nic{}", node, i % 8);
    cables->push_back({gpu, node, kNodeRate, 1e-6});
    cables->push_back({spec.nics_on_switch ? node : gpu, nic, 10 * kNodeRate, 0});
    cables->push_back({nic, leaf, kNicRate, 2.5e-6});
    if (i < 8) cables->push_back({leaf, "spine", nodes * kNicRate / spec.fabric.oversubscription});
  }
  ClusterSpec listed = spec;
  listed.fabric = {};
  listed.cables = std::move(cables);
  return build(listed, 8 * nodes);
}

TEST_CASE("an all-to-all keeps to rails of cables as to those of the key") {
  ClusterSpec spec = round_spec();
  spec.fabric = {Fabric::RailOptimised, 5, 8};
  const Cluster by_key = build(spec, 40), cables = cabled_rails(spec, 5);
  // In pairs, link by link, and with unequal nodes.
  for (const auto& ranks : {group(4, 8), group(5, 8), group(5, 4, 1), devices({0, 1, 8, 9, 17})}) {
    const Traffic load = traffic(cables, CommKind::AllToAll, ranks);
    const Traffic expected = traffic(by_key, CommKind::AllToAll, ranks);
    CHECK(load.seconds_per_byte == Approx(expected.seconds_per_byte));
    CHECK(load.latency_ns == expected.latency_ns);
  }
  CHECK(traffic(cables, CommKind::AllToAll, group(5, 8)).seconds_per_byte ==
        Approx(32.0 / 40 / kNicRate));
  // Without NVLinks GPUs keep to their own NICs: seven of eight parts cross a spine of one eighth.
  spec.nics_on_switch = true;
  const Cluster plain = build(spec, 40), plain_cables = cabled_rails(spec, 5);
  for (const Cluster* cluster : {&plain, &plain_cables})
    CHECK(traffic(*cluster, CommKind::AllToAll, group(5, 8)).seconds_per_byte ==
          Approx(7.0 * 32 / 40 / kNicRate));
}

TEST_CASE("sends and ring shifts go by the receiver's rail") {
  ClusterSpec spec = round_spec();
  spec.fabric = {Fabric::RailOptimised, 5, 8};
  const Cluster by_key = build(spec, 40), cables = cabled_rails(spec, 5);
  for (const Cluster* cluster : {&by_key, &cables}) {
    CHECK(transfer_ns(*cluster, 1'000'000'000, DeviceId{0}, DeviceId{9}) ==
          100'000'000 + kNicLatency_ns);
    const Traffic ring = traffic(*cluster, CommKind::RingShift, group(5, 8));
    CHECK(ring.seconds_per_byte == Approx(1 / kNicRate));
  }
  CHECK(loads(by_key, traffic(by_key, CommKind::SendRecv, devices({0, 9}))) ==
        std::map<std::string, double>{{"n0.nic1.up", 1}, {"n1.nic1.down", 1}});
  // A ring's relays are its members: GPU 0 sends to GPU 9 by the NIC of GPU 1 if that is one.
  CHECK(loads(by_key, traffic(by_key, CommKind::RingShift, devices({0, 9}))).at("n0.nic0.up") == 1);
  CHECK(loads(by_key, traffic(by_key, CommKind::RingShift, devices({0, 9, 1}))).at("n0.nic1.up") ==
        1);
}

TEST_CASE("a reduction tree crosses each leaf's uplink once, and none where one leaf joins all") {
  // Rails: leaf i of a pod of two nodes has NIC i of both. Eight trees of 1/8.
  ClusterSpec spec = in_network_spec();
  spec.fabric = {Fabric::RailOptimised, 2, 1};
  const Cluster rails = build(spec, 32);
  for (const auto& [link, amount] : loads(rails, traffic(rails, CommKind::AllReduce, group(2, 8))))
    CHECK(!is_of(link, "leaf"));
  int uplinks = 0;
  for (const auto& [link, amount] :
       loads(rails, traffic(rails, CommKind::AllReduce, group(4, 8)))) {
    if (!is_of(link, "leaf")) continue;
    ++uplinks;
    CHECK(amount == Approx(1.0 / 8));
  }
  CHECK(uplinks == 2 * 16);  // two pods of eight leaves, up and down
  // A fat tree's leaf has all NICs of its two nodes: its uplink carries all eight trees.
  spec.fabric.kind = Fabric::FatTree;
  const Cluster tree = build(spec, 32);
  const auto amounts = loads(tree, traffic(tree, CommKind::AllReduce, group(4, 8)));
  CHECK(amounts.at("leaf0.up") == Approx(1));
  CHECK(amounts.at("leaf1.down") == Approx(1));
  CHECK(amounts.at("n3.nic7.up") == Approx(1.0 / 8));
}

TEST_CASE("in lock step hierarchical groups share NICs as their sum does") {
  // tp 4 on nodes of 8 GPUs and 4 NICs: groups {i, i + 4} on both nodes. A NIC belongs to two
  // groups, a GPU's link to one.
  for (const bool in_network : {false, true}) {
    ClusterSpec spec = round_spec(Collectives::Hierarchical, 4);
    spec.in_network_reduction = in_network;
    const Cluster cluster = build(spec, 16);
    std::vector<std::vector<DeviceId>> groups;
    for (int i = 0; i < 4; ++i) groups.push_back(group(2, 2, i));
    const std::vector<Choices> load = lockstep_choices(cluster, CommKind::AllReduce, groups);
    // k = 2, n = 2: twice 2 x 1/2 x 1/2 on a NIC, either way.
    REQUIRE(load.size() == 1);
    CHECK(load[0].back().seconds_per_byte == Approx(1 / kNicRate));
    CHECK(load[0].back().latency_ns == 2 * kNodeLatency_ns + 2 * kNicLatency_ns);
  }
}

// What leaves the node that most leaves, and what comes to the one that most comes to, per byte.
double busiest_node(const Cluster& cluster, const Traffic& traffic) {
  std::map<std::string, double> nodes;
  for (const auto& [link, amount] : loads(cluster, traffic)) {
    if (!is_of(link, ".nic")) continue;
    nodes[link.substr(0, link.find('.')) + link.substr(link.rfind('.'))] += amount;
  }
  double most = 0;
  for (const auto& [node, amount] : nodes) most = std::max(most, amount);
  return most;
}

TEST_CASE("one communicator moves its own rate out of a node, through however many NICs") {
  ClusterSpec spec = round_spec();
  spec.communicator_bytes_per_s = 25e9;
  const Cluster cluster = build(spec, 16);
  for (const int k : {1, 2, 4, 8}) {
    INFO(k << " ranks on each of two nodes");
    // k rings through k NICs of 10 GB/s, n = 2k: 2(n-1)/n leave a node, in all. Two NICs carry less
    // than 25 GB/s, four would carry more.
    const double out = 2.0 * (2 * k - 1) / (2 * k);
    const double rate = std::min(k * kNicRate, 25e9);
    const Traffic load = traffic(cluster, CommKind::AllReduce, group(2, k));
    CHECK(load.seconds_per_byte == Approx(out / rate));
    for (const Flow& flow : load.flows)
      CHECK(flow.limit_bytes_per_s == Approx(crosses(cluster, flow) ? 25e9 / k : 0));
  }
  // A transfer is alone on its NIC: 10 GB/s of 25, then 4 of 4.
  CHECK(traffic(cluster, CommKind::SendRecv, devices({0, 8})).seconds_per_byte == 1 / kNicRate);
  spec.communicator_bytes_per_s = 4e9;
  CHECK(traffic(build(spec, 16), CommKind::SendRecv, devices({0, 8})).seconds_per_byte == 1 / 4e9);
  // Inside a node nothing changes.
  CHECK(traffic(build(spec, 16), CommKind::AllReduce, group(1, 8)).seconds_per_byte ==
        Approx(1.75 / kNodeRate));
}

// The large message's way of the operation that takes longest.
Traffic slowest(const std::vector<Choices>& each) {
  return std::ranges::max_element(each, {},
                                  [](const Choices& one) { return one.back().seconds_per_byte; })
      ->back();
}

TEST_CASE("k rings of one rail each scale until the NICs are full") {
  // Communicators of one rank on each of two nodes send 2 x 1/2 of the bytes; one has 3 GB/s. GPUs
  // that share a NIC of 10 GB/s get 3 each up to three of them, four get 2.5.
  for (const int nics : {2, 8}) {
    ClusterSpec spec = round_spec(Collectives::Ring, nics);
    spec.communicator_bytes_per_s = 3e9;
    const Cluster cluster = build(spec, 16);
    std::vector<std::vector<DeviceId>> rings;
    for (int k = 1; k <= 8; ++k) {
      INFO(k << " rings, " << nics << " NICs");
      rings.push_back(group(2, 1, k - 1));
      const int on_a_nic = nics == 8 ? 1 : std::min(k, 4);
      const double each = std::min(3e9, kNicRate / on_a_nic);
      const Traffic load = slowest(lockstep_choices(cluster, CommKind::AllReduce, rings));
      CHECK(load.seconds_per_byte == Approx(1 / each));
      CHECK(duration_ns(load, 3'000'000'000) == to_ns(3e9 / each) + 2 * kNicLatency_ns);
    }
    // One alone, as `tandem topology` and nccl-tests have it.
    CHECK(collective_ns(cluster, CommKind::AllReduce, 3'000'000'000, rings[0]) ==
          1'000'000'000 + 2 * kNicLatency_ns);
  }
}

TEST_CASE("a communicator's rate holds for every operation, however it goes") {
  const unsigned seed = 987654321;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % (high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    ClusterSpec spec = round_spec(static_cast<Collectives>(pick(0, 1)), 1 << pick(0, 3));
    spec.in_network_reduction = pick(0, 1) == 1;
    spec.nics_on_switch = pick(0, 1) == 1;
    spec.fabric = {static_cast<Fabric::Kind>(pick(0, 2)), pick(1, 4),
                   static_cast<double>(pick(1, 4))};
    std::vector<DeviceId> ranks;  // up to 48: an all-to-all of more than 32 goes link by link
    for (int i = 0; i < 64; ++i) ranks.push_back(DeviceId{i});
    if (pick(0, 1) == 1) std::shuffle(ranks.begin(), ranks.end(), random);
    ranks.resize(pick(2, 48));
    const CommKind kind = static_cast<CommKind>(pick(1, kCommKinds - 1));
    const Cluster plain = build(spec, 64);
    const Traffic free = traffic(plain, kind, ranks);
    spec.communicator_bytes_per_s = pick(1, 60) * 1e9;
    const Cluster bound = build(spec, 64);
    const Traffic limited = traffic(bound, kind, ranks);
    const double out_s = busiest_node(plain, free) / spec.communicator_bytes_per_s;
    INFO("round " << round << ", " << comm_kind_name(kind) << " of " << ranks.size());
    REQUIRE(limited.seconds_per_byte == Approx(std::max(free.seconds_per_byte, out_s)));
    REQUIRE(loads(bound, limited) == loads(plain, free));
    // In lock step with itself it loads links twice, and has its own rate.
    if (limited.flows.empty()) continue;
    const Traffic twice = slowest(lockstep_choices(bound, kind, std::vector{ranks, ranks}));
    REQUIRE(twice.seconds_per_byte == Approx(std::max(2 * free.seconds_per_byte, out_s)));
  }
}

TEST_CASE("trees between nodes keep to their communicator's rate") {
  ClusterSpec spec = round_spec();
  spec.trees = spec.nvls = true;
  spec.communicator_bytes_per_s = 4e9;
  // Two nodes' trees send each byte once, at 4 GB/s; their rings nearly twice.
  for (const int k : {1, 2, 8}) {
    INFO(k << " ranks on each");
    CHECK(traffic(build(spec, 16), CommKind::AllReduce, group(2, k)).seconds_per_byte ==
          Approx(1 / 4e9));
  }
}

TEST_CASE("what was measured of a group holds, whatever its communicator's rate") {
  ClusterSpec spec = round_spec();
  spec.communicator_bytes_per_s = 4e9;
  spec.calibration = {{CommKind::AllReduce, 16, 2, 7e-6, 50e9}};
  const Traffic load = traffic(build(spec, 16), CommKind::AllReduce, group(2, 8));
  CHECK(load.seconds_per_byte == Approx(2.0 * 15 / 16 / 50e9));
}

}  // namespace
}  // namespace tandem
