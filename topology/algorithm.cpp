// Makes the flows of NCCL's algorithms: flat and hierarchical rings, double binary trees, reduction
// in switches (NVLS, SHARP) and pairwise exchanges. In: an operation and its devices. Out: the
// share of its bytes that each list of links carries, and its latency. A share is per byte of the
// operation.
#include "topology/algorithm.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem {
namespace {

// An all-to-all of more ranks than this becomes one flow for each link instead of one for each pair
// of ranks, to save time.
constexpr std::size_t kPairwiseRanks = 32;

// Collects a Traffic: first flows, then the messages that follow one another over them.
class FlowBuilder {
 public:
  explicit FlowBuilder(const Cluster& cluster)
      : cluster_(cluster), limit_(cluster.spec().communicator_bytes_per_s) {}

  const Cluster& cluster() const { return cluster_; }

  // From here on send_by_rail() and all_pairs() pass on by these GPUs alone, a communicator's
  // members.
  void set_relays(std::span<const DeviceId> members) {
    relays_.assign(members.begin(), members.end());
    std::ranges::sort(relays_);
  }

  void send(DeviceId from, DeviceId to, double share, int multiplicity = 1) {
    const bool crosses = find_route(from, to);
    add(links_, share, multiplicity, crosses);
    if (crosses) count(from, to, share * multiplicity);
  }

  // Sends by another member's NIC where that keeps to a rail (NCCL's PXN; DeepEP keeps to the
  // sender's rail, with the same load). The copy between the two over NVLink is not counted.
  void send_by_rail(DeviceId from, DeviceId to, double share) { send(sender(from, to), to, share); }

  // Sends from each member to the next one and from the last to the first. A single member sends
  // nothing.
  void ring(std::span<const DeviceId> members, double share) {
    if (members.size() < 2) return;
    for (std::size_t i = 0; i < members.size(); ++i)
      send(members[i], members[(i + 1) % members.size()], share);
  }

  // Sends from each member up to the switch that joins them and down again, reduced on the way:
  // once over every link of the smallest tree that joins them, which are the links of a ring
  // through all. REQUIRES: each on a node of its own.
  void tree(std::span<const DeviceId> members, double share) {
    std::vector<LinkId> links;
    for (std::size_t i = 0; i < members.size(); ++i) {
      find_route(members[i], members[(i + 1) % members.size()]);
      links.insert(links.end(), links_.begin(), links_.end());
      count(members[i], members[i], share);  // leaves its node and comes back
    }
    std::ranges::sort(links);
    links.erase(std::unique(links.begin(), links.end()), links.end());
    for (const LinkId link : links) add({link}, share, 1, /*crosses=*/true);
  }

  // Exchanges from every member to every other: `inside_share` to one on the same node, `share` to
  // one on another node. The loads are summed link by link, so each link gets one flow.
  void all_pairs(std::span<const DeviceId> members, double share, double inside_share) {
    std::vector<double> loads(cluster_.links());
    std::vector<char> inside(cluster_.links());  // links that also carry traffic inside a node
    for (const DeviceId from : members) {
      for (const DeviceId to : members) {
        if (from == to) continue;
        const bool crosses = find_route(sender(from, to), to);
        for (const LinkId link : links_) {
          loads[index(link)] += crosses ? share : inside_share;
          inside[index(link)] |= static_cast<char>(!crosses);
        }
        if (crosses) count(from, to, share);
      }
    }
    for (int i = 0; i < static_cast<int>(loads.size()); ++i) {
      if (loads[i] > 0) add({LinkId{i}}, loads[i], 1, /*crosses=*/inside[i] == 0);
    }
  }

  void add_latency(double seconds) { traffic_.latency_ns += to_ns(seconds); }

  // Adds the latency of `messages` that wait for each other. Each takes the slowest route used
  // since the last call.
  void steps(std::size_t messages) {
    traffic_.latency_ns += static_cast<Nanoseconds>(messages) * slowest_ns_;
    slowest_ns_ = 0;
  }

  // Ends the collection. Flows between nodes get limits such that the busiest node sends or
  // receives at the communicator's rate, and all others at the same pace: of k equal flows that
  // leave this node each gets 1/k of the rate.
  Traffic take() {
    double busiest = 0;
    for (const auto& [node, share] : leaving_) busiest = std::max(busiest, share);
    for (const auto& [node, share] : coming_) busiest = std::max(busiest, share);
    for (Flow& flow : traffic_.flows) {
      if (flow.limit_bytes_per_s > 0) flow.limit_bytes_per_s /= busiest;
    }
    return std::move(traffic_);
  }

 private:
  DeviceId sender(DeviceId from, DeviceId to) const {
    const DeviceId by = cluster_.sender(from, to);
    return relays_.empty() || std::ranges::binary_search(relays_, by) ? by : from;
  }

  // Puts the route into links_, and notes its latency. Returns whether it leaves the node.
  bool find_route(DeviceId from, DeviceId to) {
    slowest_ns_ = std::max(slowest_ns_, cluster_.latency_ns(from, to));
    cluster_.route(from, to, &links_);
    const bool crosses = cluster_.node_of(from) != cluster_.node_of(to);
    traffic_.between_nodes |= crosses;
    return crosses;
  }

  void add(std::vector<LinkId> links, double share, int multiplicity, bool crosses) {
    const double limit = crosses ? limit_ * share : 0;  // take() divides it
    traffic_.flows.push_back({std::move(links), share, multiplicity, limit});
  }

  // Counts what leaves the node of `from`, and what comes to the node of `to`.
  void count(DeviceId from, DeviceId to, double share) {
    if (limit_ <= 0) return;
    leaving_[index(cluster_.node_of(from))] += share;
    coming_[index(cluster_.node_of(to))] += share;
  }

  const Cluster& cluster_;
  const double limit_;                                // of the communicator; 0: none
  std::unordered_map<int, double> leaving_, coming_;  // by node
  Traffic traffic_;
  std::vector<DeviceId> relays_;  // sorted; empty: all GPUs
  std::vector<LinkId> links_;     // of the last call of find_route()
  Nanoseconds slowest_ns_ = 0;
};

// A group's devices, sorted by node. The members on the j-th node are [starts[j], starts[j + 1]).
struct NodeGroups {
  std::vector<DeviceId> devices;
  std::vector<int> starts;

  int nodes() const { return static_cast<int>(starts.size()) - 1; }
  std::span<const DeviceId> members(int node) const {
    return {devices.data() + starts[node], devices.data() + starts[node + 1]};
  }

  // Returns the members of the node that has the most members.
  std::span<const DeviceId> largest_node() const {
    std::span<const DeviceId> most = members(0);
    for (int j = 1; j < nodes(); ++j)
      if (members(j).size() > most.size()) most = members(j);
    return most;
  }

  // Returns how many members each node has, or 0 if nodes have different numbers of members.
  std::size_t members_per_node() const {
    const std::size_t first = members(0).size();
    for (int j = 1; j < nodes(); ++j) {
      if (members(j).size() != first) return 0;
    }
    return first;
  }

  // Returns the members that are number `place` on their nodes, one of each node.
  std::vector<DeviceId> at_place(std::size_t place) const {
    std::vector<DeviceId> found;
    for (int j = 0; j < nodes(); ++j) found.push_back(members(j)[place]);
    return found;
  }
};

// Orders nodes by their first device, and the devices of a node as given.
NodeGroups group_by_node(const Cluster& cluster, std::span<const DeviceId> devices) {
  NodeGroups groups{{devices.begin(), devices.end()}, {}};
  const auto node = [&](DeviceId device) { return index(cluster.node_of(device)); };
  if (!std::ranges::is_sorted(devices, {}, node)) {
    std::unordered_map<int, std::size_t> first;
    for (std::size_t i = 0; i < devices.size(); ++i) first.try_emplace(node(devices[i]), i);
    std::ranges::stable_sort(groups.devices, {}, [&](DeviceId d) { return first.at(node(d)); });
  }
  int last = -1;
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    const int here = node(groups.devices[i]);
    if (here != last) groups.starts.push_back(i);
    last = here;
  }
  groups.starts.push_back(static_cast<int>(devices.size()));
  return groups;
}

// Returns how often the array goes round the ring: an all-reduce is a reduce-scatter and an
// all-gather, so twice; these two by themselves once.
int passes(CommKind kind) { return kind == CommKind::AllReduce ? 2 : 1; }

// Returns how many times as long members on one node take because NVLinks join its GPUs in pairs; 1
// where a switch joins all. The graph gives each GPU the rate of the best joined pair, of which the
// members' rings reach the part nvlink_rate().
double nvlink_slowdown(const Cluster& cluster, std::span<const DeviceId> members) {
  const ClusterSpec& spec = cluster.spec();
  if (spec.nvlinks.empty() || members.size() < 2) return 1;
  std::vector<int> places;
  for (const DeviceId member : members) places.push_back(index(member) % spec.gpus_per_node);
  return 1 / nvlink_rate(spec.nvlinks, places);
}

// Returns the share of the array that a rank of a ring sends to the next one. The array is cut into
// n parts, and in a pass all of them but one go over each hop. ring_steps() returns the number of
// messages that wait for each other: n - 1 in a pass.
double ring_share(CommKind kind, std::size_t ranks) {
  return passes(kind) * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}
std::size_t ring_steps(CommKind kind, std::size_t ranks) { return passes(kind) * (ranks - 1); }

// Adds a ring collective among members of one node.
void ring_on_node(CommKind kind, std::span<const DeviceId> members, FlowBuilder* flows) {
  // The filling of the pipeline costs as much as these further steps, each of 1/n of the array.
  const double fill = passes(kind) * flows->cluster().spec().ring_fill_steps;
  const double share =
      ring_share(kind, members.size()) + fill / static_cast<double>(members.size());
  flows->ring(members, share * nvlink_slowdown(flows->cluster(), members));
  flows->steps(ring_steps(kind, members.size()));
}

// Adds an all-reduce of `share` of the array along NCCL's double binary tree (Sanders et al. 2009,
// "Two-tree algorithms for full bandwidth broadcast, reduction and scan"). Half of it goes up and
// down each tree. A member with two children in one tree is a leaf of the other, so nobody sends
// more than two shares. The trees are those of NCCL's ncclGetBtree and ncclGetDtree. In the first
// one of 8 members, below the root 0:
//
//         4
//     2       6
//   1   3   5   7
//
// The second one has the same form with members in reverse order or, if their number is odd, each
// moved on by one.
void double_tree(std::span<const DeviceId> members, double share, FlowBuilder* flows) {
  const int n = static_cast<int>(members.size());
  const auto both_ways = [&](int child, int parent) {
    flows->send(members[child], members[parent], share / 2);
    flows->send(members[parent], members[child], share / 2);
  };
  for (int i = 1; i < n; ++i) {
    const int bit = i & -i;  // the lowest set bit: 1 in a leaf, doubled in each level above
    const int above = (i ^ bit) | (bit << 1);  // of 5 this is 6, of 6 it is 4
    const int parent = above < n ? above : i ^ bit;
    both_ways(i, parent);
    if (n % 2 == 0) {
      both_ways(n - 1 - i, n - 1 - parent);
    } else {
      both_ways((i + 1) % n, (parent + 1) % n);
    }
  }
}

// The places on a node of the members at which a ring enters the node and leaves it.
struct RingOnNode {
  int entry, exit;
};

// Ring r of k enters an even node at member r, walks forwards round the node and leaves it at
// r - 1. It enters an odd node at r - 1, walks backwards and leaves it at r. With 2 nodes of 4,
// rings 1 and 2 are
//    n0: 1 2 3 0 -> n1: 0 3 2 1 -> n0: 1
//    n0: 2 3 0 1 -> n1: 1 0 3 2 -> n0: 2
// So hops between nodes join members of equal place (except from the last of an odd number of
// nodes), and every ring leaves a node through another member. On a node with more members than
// rings, the places r are spread evenly: 0 and 3 for 2 rings and 6 members.
RingOnNode ring_on(int node, std::size_t members, int r, int rings) {
  const int size = static_cast<int>(members);
  const int place = static_cast<int>(std::int64_t{r} * size / rings);
  const int before = (place + size - 1) % size;
  const bool forward = node % 2 == 0;
  return forward ? RingOnNode{place, before} : RingOnNode{before, place};
}

// Adds k rings over several nodes, where k is the fewest members on a node. A ring visits all
// members of a node. So each member sends to its neighbour on the node in all rings but the one
// that leaves the node there.
void rings_over_nodes(const NodeGroups& groups, double share, FlowBuilder* flows) {
  const int nodes = groups.nodes();
  std::size_t fewest = groups.devices.size();
  for (int j = 0; j < nodes; ++j) fewest = std::min(fewest, groups.members(j).size());
  const int rings = static_cast<int>(fewest);
  const double part = share / rings;
  const double between = part / flows->cluster().spec().ring_efficiency;

  for (int j = 0; j < nodes; ++j) {
    const int next = (j + 1) % nodes;
    const auto here = groups.members(j);
    const auto there = groups.members(next);
    std::vector<int> rings_to_neighbour(here.size(), rings);  // by member
    for (int r = 0; r < rings; ++r) {
      const int exit = ring_on(j, here.size(), r, rings).exit;
      flows->send(here[exit], there[ring_on(next, there.size(), r, rings).entry], between);
      --rings_to_neighbour[exit];
    }
    const double inside = part * nvlink_slowdown(flows->cluster(), here);
    const std::size_t to_neighbour = j % 2 == 0 ? 1 : here.size() - 1;  // forwards or backwards
    for (std::size_t i = 0; i < here.size(); ++i) {
      const DeviceId neighbour = here[(i + to_neighbour) % here.size()];
      if (rings_to_neighbour[i] > 0) flows->send(here[i], neighbour, inside, rings_to_neighbour[i]);
    }
  }
}

// Adds an all-reduce in double binary trees between the ranks of equal place on their nodes. On a
// node of k ranks either the ranks pass everything along a chain and back, or the switch reduces
// and multicasts (NVLS). The chain's k - 1 hops there and back load the node as a ring of k hops
// with 2 (k - 1)/k of the array each. With NVLS each rank reads 1/k of the array reduced from all k
// and stores it to all, so (k + 1)/k of the array crosses its link in each direction.
void trees_over_nodes(const NodeGroups& groups, bool nvls, FlowBuilder* flows) {
  const Cluster& cluster = flows->cluster();
  const std::size_t k = groups.members_per_node();
  const double part = 1.0 / static_cast<double>(k);
  for (int j = 0; j < groups.nodes(); ++j) {
    const auto members = groups.members(j);
    flows->ring(members, nvls ? (1 + part) / cluster.spec().nvls_efficiency
                              : 2 * (1 - part) * nvlink_slowdown(cluster, members));
  }
  flows->steps(nvls ? 2 : 2 * (k - 1));
  if (groups.nodes() == 1) return;
  for (std::size_t place = 0; place < k; ++place) double_tree(groups.at_place(place), part, flows);
  flows->steps(2 * std::bit_width(static_cast<unsigned>(groups.nodes() - 1)));  // ceil(log2 nodes)
}

// Adds a hierarchical collective. A ring on every node leaves each of its k ranks 1/k of the array.
// The ranks of equal place then exchange this 1/k, in rings or reduced by the switches. An
// all-reduce gathers on the nodes at the end. The phases are pipelined in pieces, so all of their
// flows run at once.
void hierarchical(const NodeGroups& groups, CommKind kind, bool in_network, FlowBuilder* flows) {
  const std::size_t k = groups.members_per_node();
  const auto nodes = static_cast<std::size_t>(groups.nodes());
  for (int j = 0; j < groups.nodes(); ++j) {
    const auto members = groups.members(j);
    flows->ring(members, ring_share(kind, k) * nvlink_slowdown(flows->cluster(), members));
  }
  flows->steps(ring_steps(kind, k));
  const double part = 1.0 / static_cast<double>(k);
  const double ring_efficiency = flows->cluster().spec().ring_efficiency;
  for (std::size_t place = 0; place < k; ++place) {
    if (in_network) {
      flows->tree(groups.at_place(place), part);
    } else {
      flows->ring(groups.at_place(place), part * ring_share(kind, nodes) / ring_efficiency);
    }
  }
  flows->steps(in_network ? 2 : ring_steps(kind, nodes));  // 2: up and down
}

// Adds a collective over several nodes. Only an all-reduce of equally many ranks on each node (k)
// uses trees, with NVLS or chains on the nodes, or lets the network reduce.
void collective_over_nodes(CommKind kind, const NodeGroups& groups, Algorithm algorithm,
                           FlowBuilder* flows) {
  const ClusterSpec& spec = flows->cluster().spec();
  const std::size_t k = groups.members_per_node();
  const bool nodes_are_equal = k > 0;
  if (kind == CommKind::AllReduce && nodes_are_equal) {
    const bool nvls = algorithm == Algorithm::Nvls;
    if (spec.trees && (nvls || algorithm == Algorithm::Tree))
      return trees_over_nodes(groups, nvls && k > 1, flows);
    if (spec.in_network_reduction) return hierarchical(groups, kind, /*in_network=*/true, flows);
  }
  if (algorithm == Algorithm::Hierarchical && k > 1)
    return hierarchical(groups, kind, /*in_network=*/false, flows);
  const std::size_t n = groups.devices.size();
  rings_over_nodes(groups, ring_share(kind, n), flows);
  flows->steps(ring_steps(kind, n));
}

void collective(CommKind kind, std::span<const DeviceId> devices, Algorithm algorithm,
                FlowBuilder* flows) {
  const ClusterSpec& spec = flows->cluster().spec();
  const NodeGroups groups = group_by_node(flows->cluster(), devices);
  const bool one_node = groups.nodes() == 1;
  // The base latency is given for an all-reduce. One pass takes half of it, so that scattering
  // takes as long as gathering.
  flows->add_latency((one_node ? spec.intra_base_s : spec.inter_base_s) * passes(kind) / 2);
  if (!one_node) return collective_over_nodes(kind, groups, algorithm, flows);
  if (kind == CommKind::AllReduce && algorithm == Algorithm::Nvls)
    return trees_over_nodes(groups, /*nvls=*/true, flows);
  ring_on_node(kind, devices, flows);
}

// Sends `share` from every member to every other, `inside_share` on the same node, all at once: a
// flow for each pair, or for each link.
void exchange(std::span<const DeviceId> members, double share, double inside_share,
              FlowBuilder* flows) {
  if (members.size() > kPairwiseRanks) return flows->all_pairs(members, share, inside_share);
  const Cluster& cluster = flows->cluster();
  for (const DeviceId from : members) {
    for (const DeviceId to : members) {
      const bool crosses = cluster.node_of(from) != cluster.node_of(to);
      if (from != to) flows->send_by_rail(from, to, crosses ? share : inside_share);
    }
  }
}

void all_to_all(std::span<const DeviceId> devices, FlowBuilder* flows) {
  const ClusterSpec& spec = flows->cluster().spec();
  const std::size_t n = devices.size();
  const NodeGroups groups = group_by_node(flows->cluster(), devices);
  const bool one_node = groups.nodes() == 1;
  const double share = 1.0 / static_cast<double>(n);
  const double slowdown = nvlink_slowdown(flows->cluster(), groups.largest_node());
  flows->set_relays(devices);
  exchange(devices, share, share * slowdown, flows);
  // Inside a node all pairs exchange at once, and that costs as much as a pass.
  if (one_node) flows->add_latency(spec.intra_base_s / 2);
  flows->steps(one_node ? 1 : n - 1);
}

// Sends all bytes from one device to another, between nodes by the receiver's rail.
void send_all(DeviceId from, DeviceId to, FlowBuilder* flows) {
  const Cluster& cluster = flows->cluster();
  const DeviceId pair[] = {from, to};
  const bool crosses = cluster.node_of(from) != cluster.node_of(to);
  flows->send_by_rail(from, to, crosses ? 1 : nvlink_slowdown(cluster, pair));
}

}  // namespace

Traffic flows_of(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                 Algorithm algorithm) {
  const std::size_t n = devices.size();
  FlowBuilder flows(cluster);
  if (n < 2) return {};
  switch (kind) {
    case CommKind::SendRecv:
      CHECK(n == 2);
      if (devices[0] != devices[1]) send_all(devices[0], devices[1], &flows);
      flows.steps(1);
      break;
    case CommKind::RingShift:
      flows.set_relays(devices);
      for (std::size_t i = 0; i < n; ++i) send_all(devices[i], devices[(i + 1) % n], &flows);
      flows.steps(1);
      break;
    case CommKind::AllToAll:
      all_to_all(devices, &flows);
      break;
    case CommKind::AllReduce:
    case CommKind::ReduceScatter:
    case CommKind::AllGather:
      collective(kind, devices, algorithm, &flows);
      break;
  }
  return flows.take();
}

}  // namespace tandem
