// Rings, pairwise exchanges and the load they put on the links.
#include "topology/traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// Beyond this many ranks an all-to-all is one flow a link instead of one a pair.
constexpr std::size_t kPairwiseRanks = 32;

// A group's devices, those of a node together: node j's members are [starts[j], starts[j + 1]).
struct NodeGroups {
  std::vector<DeviceId> devices;
  std::vector<int> starts;

  int nodes() const { return static_cast<int>(starts.size()) - 1; }
  std::span<const DeviceId> members(int node) const {
    return {devices.data() + starts[node], devices.data() + starts[node + 1]};
  }
};

// Nodes in order of their first device, the devices of a node in the order given.
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

// The hops of k rings over several nodes, k the fewest members on a node. Ring r takes the even
// nodes forwards, from member r round to member r - 1, and the odd ones backwards, from r - 1 round
// to r: so hops between nodes stay on one rail (but for the last of an odd number of nodes), every
// ring leaves a node through another member, and each member sends to its neighbour in all rings
// but the one that leaves through it.
template <class Visit>
void visit_rings(const NodeGroups& groups, double share, double ring_efficiency, Visit visit) {
  const int nodes = groups.nodes();
  std::size_t fewest = groups.devices.size();
  for (int j = 0; j < nodes; ++j) fewest = std::min(fewest, groups.members(j).size());
  const int rings = static_cast<int>(fewest);
  const double part = share / rings;

  // Where ring r stands on a node, high end or low; it skips some on one with more members.
  const auto stand = [&](int r, std::span<const DeviceId> members, bool high) {
    const int size = static_cast<int>(members.size());
    if (size == 1) return 0;
    const int place = static_cast<int>(std::int64_t{r} * size / rings);
    return high ? place : (place == 0 ? size : place) - 1;
  };
  std::vector<char> leaves;
  for (int j = 0; j < nodes; ++j) {
    const int after = j + 1 < nodes ? j + 1 : 0;
    const bool forward = j % 2 == 0;
    const auto here = groups.members(j);
    leaves.assign(here.size(), 0);
    for (int r = 0; r < rings; ++r) {
      const int exit = stand(r, here, !forward);
      const int entry = stand(r, groups.members(after), after % 2 == 0);
      leaves[exit] = 1;
      visit(here[exit], groups.members(after)[entry], part / ring_efficiency, 1);
    }
    if (here.size() == 1) continue;
    const int size = static_cast<int>(here.size());
    for (int i = 0; i < size; ++i) {
      const int times = rings - leaves[i];
      const int to = (i + (forward ? 1 : size - 1)) % size;
      if (times > 0) visit(here[i], here[to], part, times);
    }
  }
}

// Calls visit(from, to, share, multiplicity) for each stream of the operation.
template <class Visit>
void visit_hops(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                Visit visit) {
  const std::size_t n = devices.size();
  if (n < 2) return;
  if (kind == CommKind::SendRecv) {
    CHECK(n == 2);
    if (devices[0] != devices[1]) visit(devices[0], devices[1], 1.0, 1);
    return;
  }
  if (kind == CommKind::AllToAll) {
    for (const DeviceId from : devices) {
      for (const DeviceId to : devices) {
        if (from != to) visit(from, to, 1.0 / static_cast<double>(n), 1);
      }
    }
    return;
  }
  if (kind == CommKind::RingShift) {
    for (std::size_t i = 0; i < n; ++i) visit(devices[i], devices[(i + 1) % n], 1.0, 1);
    return;
  }
  const double passes = kind == CommKind::AllReduce ? 2 : 1;
  const double share = passes * static_cast<double>(n - 1) / static_cast<double>(n);
  const NodeGroups groups = group_by_node(cluster, devices);
  if (groups.nodes() > 1) {
    visit_rings(groups, share, cluster.spec().ring_efficiency, visit);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) visit(devices[i], devices[(i + 1) % n], share, 1);
}

// How many messages follow one another, each waiting for the one before it.
Nanoseconds steps(CommKind kind, std::size_t ranks) {
  const auto others = static_cast<Nanoseconds>(ranks) - 1;
  if (kind == CommKind::SendRecv || kind == CommKind::RingShift) return 1;
  return kind == CommKind::AllReduce ? 2 * others : others;
}

// What each link carries, per byte of the operation; in order of the links.
using Loads = std::vector<std::pair<LinkId, double>>;

Loads loads_of(std::span<const Flow> flows) {
  Loads loads;
  for (const Flow& flow : flows) {
    for (const LinkId link : flow.links) loads.emplace_back(link, flow.share * flow.multiplicity);
  }
  std::ranges::stable_sort(loads, {}, &Loads::value_type::first);
  std::size_t count = 0;
  for (const auto& [link, load] : loads) {
    if (count > 0 && loads[count - 1].first == link) {
      loads[count - 1].second += load;
    } else {
      loads[count++] = {link, load};
    }
  }
  loads.resize(count);
  return loads;
}

// One flow for all that goes over the same links; its share is their mean, so that the load is
// theirs.
void merge(std::vector<Flow>* flows) {
  std::ranges::stable_sort(*flows, {}, &Flow::links);
  std::size_t count = 0;
  for (std::size_t i = 0; i < flows->size(); ++i) {
    Flow& flow = (*flows)[i];
    if (count > 0 && (*flows)[count - 1].links == flow.links) {
      Flow& into = (*flows)[count - 1];
      const int streams = into.multiplicity + flow.multiplicity;
      if (into.share != flow.share) {
        into.share = (into.share * into.multiplicity + flow.share * flow.multiplicity) / streams;
      }
      into.multiplicity = streams;
    } else {
      if (count != i) (*flows)[count] = std::move(flow);
      ++count;
    }
  }
  flows->resize(count);
}

}  // namespace

std::string_view name(CommKind kind) {
  switch (kind) {
    case CommKind::SendRecv:
      return "sendrecv";
    case CommKind::AllReduce:
      return "all_reduce";
    case CommKind::ReduceScatter:
      return "reduce_scatter";
    case CommKind::AllGather:
      return "all_gather";
    case CommKind::AllToAll:
      return "alltoall";
    case CommKind::RingShift:
      return "ring_shift";
  }
  return "";
}

Nanoseconds duration_ns(const Traffic& traffic, Bytes bytes) {
  return traffic.latency_ns + to_ns(static_cast<double>(bytes) * traffic.seconds_per_byte);
}

namespace {

// The flows of one operation, not merged; the latency of its slowest hop.
void add_flows(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
               Traffic* to) {
  const bool by_link = kind == CommKind::AllToAll && devices.size() > kPairwiseRanks;
  std::vector<double> link_loads(by_link ? cluster.links() : 0);
  std::vector<LinkId> links;
  Nanoseconds hop_latency_ns = 0;
  visit_hops(cluster, kind, devices, [&](DeviceId from, DeviceId end, double share, int streams) {
    hop_latency_ns = std::max(hop_latency_ns, cluster.latency_ns(from, end));
    to->between_nodes |= cluster.node_of(from) != cluster.node_of(end);
    cluster.route(from, end, &links);
    if (by_link) {
      for (const LinkId link : links) link_loads[index(link)] += share * streams;
    } else {
      to->flows.push_back({links, share, streams});
    }
  });
  for (int i = 0; i < static_cast<int>(link_loads.size()); ++i) {
    if (link_loads[i] > 0) to->flows.push_back({{LinkId{i}}, link_loads[i], 1});
  }
  to->latency_ns = std::max(to->latency_ns, steps(kind, devices.size()) * hop_latency_ns);
}

double busiest_s(const Cluster& cluster, const Loads& loads) {
  double seconds = 0;
  for (const auto& [link, load] : loads)
    seconds = std::max(seconds, load / cluster.link(link).bytes_per_s);
  return seconds;
}

// What all of `total` comes to on one link.
double load_on(const Loads& total, LinkId link) {
  return std::ranges::lower_bound(total, link, {}, &Loads::value_type::first)->second;
}

// Multiplies the streams of each flow by how many such operations share its way; false where its
// links carry different numbers of them.
bool scale_streams(const Loads& total, std::vector<Flow>* flows) {
  const Loads own = loads_of(*flows);
  for (Flow& flow : *flows) {
    const double times = load_on(total, flow.links[0]) / load_on(own, flow.links[0]);
    for (const LinkId link : flow.links) {
      if (std::abs(load_on(total, link) / load_on(own, link) - times) > 1e-9) return false;
    }
    if (std::abs(times - std::round(times)) > 1e-9) return false;
    flow.multiplicity *= static_cast<int>(std::lround(times));
  }
  return true;
}

}  // namespace

Traffic traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices) {
  Traffic result;
  add_flows(cluster, kind, devices, &result);
  merge(&result.flows);
  result.seconds_per_byte = busiest_s(cluster, loads_of(result.flows));
  return result;
}

Traffic lockstep_traffic(const Cluster& cluster, CommKind kind,
                         std::span<const std::vector<DeviceId>> instances) {
  if (instances.empty()) return {};
  Traffic all;
  bool alike = true;  // all have the same ways under the same load
  for (const std::vector<DeviceId>& devices : instances) {
    const Nanoseconds before_ns = all.latency_ns;
    add_flows(cluster, kind, devices, &all);
    alike &= before_ns == 0 || before_ns == all.latency_ns;
  }
  merge(&all.flows);
  const Loads total = loads_of(all.flows);
  all.seconds_per_byte = busiest_s(cluster, total);
  for (std::size_t i = 0; alike && i < instances.size(); ++i) {
    double busiest = 0;
    std::vector<LinkId> links;
    visit_hops(cluster, kind, instances[i], [&](DeviceId from, DeviceId to, double, int) {
      cluster.route(from, to, &links);
      for (const LinkId link : links)
        busiest = std::max(busiest, load_on(total, link) / cluster.link(link).bytes_per_s);
    });
    alike = busiest >= all.seconds_per_byte * (1 - 1e-12);
  }
  if (!alike) return all;
  Traffic first = traffic(cluster, kind, instances[0]);
  first.seconds_per_byte = all.seconds_per_byte;
  return first.latency_ns == all.latency_ns && scale_streams(total, &first.flows) ? first : all;
}

Nanoseconds transfer_ns(const Cluster& cluster, Bytes bytes, DeviceId from, DeviceId to) {
  return collective_ns(cluster, CommKind::SendRecv, bytes, std::vector{from, to});
}

Nanoseconds collective_ns(const Cluster& cluster, CommKind kind, Bytes bytes,
                          std::span<const DeviceId> devices) {
  return duration_ns(traffic(cluster, kind, devices), bytes);
}

}  // namespace tandem
