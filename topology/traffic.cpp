// Computes the load that operations put on links, alone or many in lock step, by each way. A way is
// an algorithm in one protocol of NCCL's: rings in the plain one, trees in the low-latency one, ...
#include "topology/traffic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "topology/algorithm.h"

namespace tandem {
namespace {

// The load of each link for each byte of the operation, in order of the links.
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

// Merges flows over the same links into one. Its share is their mean, so that the load stays, and
// its limit lets it end with the slowest of them.
void merge(std::vector<Flow>* flows) {
  std::ranges::stable_sort(*flows, {}, &Flow::links);
  std::size_t count = 0;
  for (std::size_t i = 0; i < flows->size(); ++i) {
    Flow& flow = (*flows)[i];
    if (count > 0 && (*flows)[count - 1].links == flow.links) {
      Flow& into = (*flows)[count - 1];
      const int both = into.multiplicity + flow.multiplicity;
      if (into.share != flow.share || into.limit_bytes_per_s != flow.limit_bytes_per_s) {
        const double slowest_s = std::max(limited_s(into), limited_s(flow));
        into.share = (into.share * into.multiplicity + flow.share * flow.multiplicity) / both;
        if (slowest_s > 0) into.limit_bytes_per_s = into.share / slowest_s;
      }
      into.multiplicity = both;
    } else {
      if (count != i) (*flows)[count] = std::move(flow);
      ++count;
    }
  }
  flows->resize(count);
}

// Returns the seconds that the flows take alone for each byte of the operation: those of the
// busiest link or of the tightest limit. `loads` are the flows' own.
double alone_s(const Cluster& cluster, const Loads& loads, std::span<const Flow> flows) {
  double seconds = 0;
  for (const auto& [link, load] : loads)
    seconds = std::max(seconds, load / cluster.link(link).bytes_per_s);
  for (const Flow& flow : flows) seconds = std::max(seconds, limited_s(flow));
  return seconds;
}

double alone_s(const Cluster& cluster, std::span<const Flow> flows) {
  return alone_s(cluster, loads_of(flows), flows);
}

// Returns the load of one link. REQUIRES: `total` has the link.
double load_on(const Loads& total, LinkId link) {
  return std::ranges::lower_bound(total, link, {}, &Loads::value_type::first)->second;
}

// An algorithm; nullopt: rings or hierarchical rings, as the spec's `collectives` says.
using AlgorithmChoice = std::optional<Algorithm>;

// Returns the share of a whole node's rate that `gpus` of its GPUs reach: `pair_efficiency` for
// two, 1 for all, and linear in 1 / gpus in between.
double efficiency_of_few(const ClusterSpec& spec, std::size_t gpus) {
  // Both are 2 / GPUs, which is 1 for a pair: of these GPUs, and of all GPUs of a node.
  const double here = 2 / static_cast<double>(gpus), whole_node = 2.0 / spec.gpus_per_node;
  if (here <= whole_node) return 1;
  return 1 - (1 - spec.pair_efficiency) * (here - whole_node) / (1 - whole_node);
}

// Returns the rate of an operation inside a node, as a share of the rate that an all-reduce's rings
// reach on the whole node.
double efficiency_of(const ClusterSpec& spec, CommKind kind, std::size_t gpus) {
  const double of_few = efficiency_of_few(spec, gpus);
  switch (kind) {
    case CommKind::AllReduce:
      return of_few;
    case CommKind::AllGather:
    case CommKind::ReduceScatter:
      return spec.gather_efficiency * of_few;
    case CommKind::AllToAll:
      return spec.alltoall_efficiency * of_few;
    case CommKind::SendRecv:
    case CommKind::RingShift:
      return 1;
  }
  CHECK(false);
  return 1;
}

// Returns the flows of one operation by this algorithm.
Traffic flows_by(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                 AlgorithmChoice algorithm) {
  if (algorithm) return flows_of(cluster, kind, devices, *algorithm);
  const Collectives collectives = cluster.spec().collectives;
  if (collectives == Collectives::Ring) return flows_of(cluster, kind, devices, Algorithm::Ring);
  Traffic hierarchical = flows_of(cluster, kind, devices, Algorithm::Hierarchical);
  if (collectives == Collectives::Hierarchical) return hierarchical;
  Traffic rings = flows_of(cluster, kind, devices, Algorithm::Ring);
  const auto cost = [&](const Traffic& flows) {
    return std::pair(alone_s(cluster, flows.flows), flows.latency_ns);
  };
  return cost(hierarchical) < cost(rings) ? hierarchical : rings;
}

// Returns the flows of one operation, not merged, at the efficiency of its kind.
Traffic chosen_flows(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                     AlgorithmChoice algorithm) {
  Traffic traffic = flows_by(cluster, kind, devices, algorithm);
  const double efficiency = efficiency_of(cluster.spec(), kind, devices.size());
  if (traffic.between_nodes || efficiency == 1) return traffic;
  for (Flow& flow : traffic.flows) flow.share /= efficiency;  // more bytes instead of a lower rate
  return traffic;
}

int nodes_of(const Cluster& cluster, std::span<const DeviceId> devices) {
  std::set<NodeId> nodes;
  for (const DeviceId device : devices) nodes.insert(cluster.node_of(device));
  return static_cast<int>(nodes.size());
}

// Returns the calibration's row for such an operation, or nullptr.
const CalibrationRow* row_of(const Cluster& cluster, CommKind kind,
                             std::span<const DeviceId> devices) {
  const std::vector<CalibrationRow>& rows = cluster.spec().calibration;
  if (rows.empty()) return nullptr;
  return find_row(rows, kind, static_cast<int>(devices.size()), nodes_of(cluster, devices));
}

// Returns the flows, scaled to the measured time if the calibration has a row.
Traffic calibrated_flows(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                         AlgorithmChoice algorithm) {
  Traffic flows = chosen_flows(cluster, kind, devices, algorithm);
  const CalibrationRow* row = row_of(cluster, kind, devices);
  if (row == nullptr || flows.flows.empty()) return flows;
  const double factor = row->seconds_per_byte() / alone_s(cluster, flows.flows);
  for (Flow& flow : flows.flows) flow.share *= factor;
  flows.latency_ns = to_ns(row->latency_s);
  return flows;
}

Traffic one_traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                    AlgorithmChoice algorithm) {
  Traffic result = calibrated_flows(cluster, kind, devices, algorithm);
  merge(&result.flows);
  result.seconds_per_byte = alone_s(cluster, result.flows);
  return result;
}

// Returns the value in `found` that differs from `value` by rounding only, so that instances that
// are alike get equal times. If there is none, adds `value` and returns it.
double snapped(double value, std::vector<double>* found) {
  for (const double known : *found) {
    if (std::abs(value - known) <= 1e-12 * known) return known;
  }
  return found->emplace_back(value);
}

// Returns each instance's latency and seconds_per_byte by one algorithm, under the load of all
// instances, without flows.
std::vector<Traffic> lockstep_of(const Cluster& cluster, CommKind kind,
                                 std::span<const std::vector<DeviceId>> instances,
                                 AlgorithmChoice algorithm) {
  std::vector<Traffic> each;
  std::vector<Flow> flows;
  std::vector<std::size_t> ends;  // where each instance's flows end
  for (const std::vector<DeviceId>& devices : instances) {
    Traffic& one = each.emplace_back(calibrated_flows(cluster, kind, devices, algorithm));
    std::ranges::move(one.flows, std::back_inserter(flows));
    one.flows.clear();
    ends.push_back(flows.size());
  }
  const Loads total = loads_of(flows);
  std::vector<double> found = {alone_s(cluster, total, flows)};
  std::size_t flow = 0;
  for (std::size_t i = 0; i < each.size(); ++i) {
    double busiest = 0;
    for (; flow < ends[i]; ++flow) {
      busiest = std::max(busiest, limited_s(flows[flow]));
      for (const LinkId link : flows[flow].links)
        busiest = std::max(busiest, load_on(total, link) / cluster.link(link).bytes_per_s);
    }
    each[i].seconds_per_byte = snapped(busiest, &found);
  }
  return each;
}

// Returns the algorithms that an operation may use.
std::vector<AlgorithmChoice> algorithms(const ClusterSpec& spec, CommKind kind) {
  std::vector<AlgorithmChoice> found = {std::nullopt};
  if (kind != CommKind::AllReduce) return found;
  if (spec.trees) found.emplace_back(Algorithm::Tree);
  if (spec.nvls) found.emplace_back(Algorithm::Nvls);
  return found;
}

// Returns whether NCCL runs this kind in more than one protocol.
bool has_low_latency(CommKind kind) {
  return kind != CommKind::SendRecv && kind != CommKind::RingShift;
}

// Returns Traffic::way of an algorithm in the plain protocol, from its place in algorithms(). The
// next number is the algorithm in the low-latency protocol.
int number_of(std::size_t place) { return 2 * static_cast<int>(place); }

Traffic in_low_latency(const ClusterSpec& spec, Traffic traffic) {
  const LowLatency& low = traffic.between_nodes ? spec.inter_low_latency : spec.intra_low_latency;
  traffic.latency_ns = std::llround(static_cast<double>(traffic.latency_ns) * low.latency);
  traffic.seconds_per_byte /= low.rate;
  for (Flow& flow : traffic.flows) flow.share /= low.rate;
  ++traffic.way;
  return traffic;
}

// Adds the ways in the low-latency protocol, and drops every way that is slower than another one
// for messages of any size.
Choices with_protocols(const ClusterSpec& spec, CommKind kind, Choices all) {
  const std::size_t plain_ways = all.size();
  for (std::size_t i = 0; i < plain_ways && has_low_latency(kind); ++i) {
    const LowLatency& low = all[i].between_nodes ? spec.inter_low_latency : spec.intra_low_latency;
    if (low.latency < 1 && all[i].seconds_per_byte > 0) all.push_back(in_low_latency(spec, all[i]));
  }
  std::ranges::stable_sort(all, [](const Traffic& a, const Traffic& b) {
    return std::pair(a.latency_ns, a.seconds_per_byte) <
           std::pair(b.latency_ns, b.seconds_per_byte);
  });
  Choices kept;
  for (Traffic& one : all) {
    if (kept.empty() || one.seconds_per_byte < kept.back().seconds_per_byte)
      kept.push_back(std::move(one));
  }
  return kept;
}

}  // namespace

double limited_s(const Flow& flow) {
  return flow.limit_bytes_per_s > 0 ? flow.share / flow.limit_bytes_per_s : 0;
}

Nanoseconds duration_ns(const Traffic& traffic, Bytes bytes) {
  return traffic.latency_ns + to_ns(static_cast<double>(bytes) * traffic.seconds_per_byte);
}

std::size_t fastest(const Choices& choices, Bytes bytes) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < choices.size(); ++i) {
    if (duration_ns(choices[i], bytes) < duration_ns(choices[best], bytes)) best = i;
  }
  return best;
}

Nanoseconds duration_ns(const Choices& choices, Bytes bytes) {
  return duration_ns(choices[fastest(choices, bytes)], bytes);
}

Choices traffic_choices(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices) {
  Choices all;
  for (const AlgorithmChoice algorithm : algorithms(cluster.spec(), kind)) {
    const int number = number_of(all.size());
    all.push_back(one_traffic(cluster, kind, devices, algorithm));
    all.back().way = number;
    if (row_of(cluster, kind, devices) != nullptr) return all;
  }
  return with_protocols(cluster.spec(), kind, std::move(all));
}

Traffic traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices) {
  return std::move(traffic_choices(cluster, kind, devices).back());
}

Traffic traffic_by(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                   int way) {
  Traffic result = one_traffic(cluster, kind, devices, algorithms(cluster.spec(), kind)[way / 2]);
  result.way = number_of(way / 2);
  return way % 2 == 0 ? result : in_low_latency(cluster.spec(), std::move(result));
}

std::vector<Choices> lockstep_choices(const Cluster& cluster, CommKind kind,
                                      std::span<const std::vector<DeviceId>> instances) {
  std::vector<Choices> all(instances.size());
  const auto is_measured = [&](std::size_t i) {
    return row_of(cluster, kind, instances[i]) != nullptr;
  };
  const std::vector<AlgorithmChoice> known = algorithms(cluster.spec(), kind);
  for (std::size_t place = 0; place < known.size(); ++place) {
    std::vector<Traffic> each = lockstep_of(cluster, kind, instances, known[place]);
    for (std::size_t i = 0; i < each.size(); ++i) {
      each[i].way = number_of(place);
      if (place > 0 && is_measured(i)) continue;  // it has one way, whatever the algorithm
      all[i].push_back(std::move(each[i]));
    }
  }
  const auto like = [](const Traffic& a, const Traffic& b) {
    return a.latency_ns == b.latency_ns && a.seconds_per_byte == b.seconds_per_byte &&
           a.between_nodes == b.between_nodes;
  };
  const auto is_like_first = [&](const Choices& one) {
    return std::ranges::equal(one, all.front(), like);
  };
  if (all.size() > 1 && std::ranges::all_of(all, is_like_first)) all.resize(1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_measured(i)) all[i] = with_protocols(cluster.spec(), kind, std::move(all[i]));
  }
  return all;
}

Nanoseconds transfer_ns(const Cluster& cluster, Bytes bytes, DeviceId from, DeviceId to) {
  return collective_ns(cluster, CommKind::SendRecv, bytes, std::vector{from, to});
}

Nanoseconds collective_ns(const Cluster& cluster, CommKind kind, Bytes bytes,
                          std::span<const DeviceId> devices) {
  return duration_ns(traffic_choices(cluster, kind, devices), bytes);
}

}  // namespace tandem
