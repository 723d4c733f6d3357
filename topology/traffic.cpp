// The load that operations put on links, alone and many in lock step.
#include "topology/traffic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "topology/algorithm.h"

namespace tandem {
namespace {

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

// Seconds for each byte of the operation that the flow's own limit makes it take.
double limited_s(const Flow& flow) {
  return flow.limit_bytes_per_s > 0 ? flow.share / flow.limit_bytes_per_s : 0;
}

// One flow for all that goes over the same links; its share is their mean, so that the load is
// theirs, and its limit lets it end with the slowest.
void merge(std::vector<Flow>* flows) {
  std::ranges::stable_sort(*flows, {}, &Flow::links);
  std::size_t count = 0;
  for (std::size_t i = 0; i < flows->size(); ++i) {
    Flow& flow = (*flows)[i];
    if (count > 0 && (*flows)[count - 1].links == flow.links) {
      Flow& into = (*flows)[count - 1];
      const int streams = into.multiplicity + flow.multiplicity;
      if (into.share != flow.share || into.limit_bytes_per_s != flow.limit_bytes_per_s) {
        const double slowest_s = std::max(limited_s(into), limited_s(flow));
        into.share = (into.share * into.multiplicity + flow.share * flow.multiplicity) / streams;
        if (slowest_s > 0) into.limit_bytes_per_s = into.share / slowest_s;
      }
      into.multiplicity = streams;
    } else {
      if (count != i) (*flows)[count] = std::move(flow);
      ++count;
    }
  }
  flows->resize(count);
}

// What the flows, which put these loads on links, take alone for each byte of the operation.
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

// What a spec's `collectives` say, or an algorithm in their place.
using Way = std::optional<Algorithm>;

// The flows of one operation, not merged.
Traffic chosen_streams(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                       Way way) {
  if (way) return streams_of(cluster, kind, devices, *way);
  const Collectives collectives = cluster.spec().collectives;
  if (collectives == Collectives::Ring) return streams_of(cluster, kind, devices, Algorithm::Ring);
  Traffic nested = streams_of(cluster, kind, devices, Algorithm::Hierarchical);
  if (collectives == Collectives::Hierarchical) return nested;
  Traffic rings = streams_of(cluster, kind, devices, Algorithm::Ring);
  const auto cost = [&](const Traffic& streams) {
    return std::pair(alone_s(cluster, streams.flows), streams.latency_ns);
  };
  return cost(nested) < cost(rings) ? nested : rings;
}

int nodes_of(const Cluster& cluster, std::span<const DeviceId> devices) {
  std::set<NodeId> nodes;
  for (const DeviceId device : devices) nodes.insert(cluster.node_of(device));
  return static_cast<int>(nodes.size());
}

// The row of the spec's calibration for such an operation, or nullptr.
const CalibrationRow* row_of(const Cluster& cluster, CommKind kind,
                             std::span<const DeviceId> devices) {
  const std::vector<CalibrationRow>& rows = cluster.spec().calibration;
  if (rows.empty()) return nullptr;
  return find_row(rows, kind, static_cast<int>(devices.size()), nodes_of(cluster, devices));
}

// The flows with the time that was measured where the spec's calibration has one.
Traffic calibrated_streams(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                           Way way) {
  Traffic streams = chosen_streams(cluster, kind, devices, way);
  const CalibrationRow* row = row_of(cluster, kind, devices);
  if (row == nullptr || streams.flows.empty()) return streams;
  const double factor = row->seconds_per_byte() / alone_s(cluster, streams.flows);
  for (Flow& flow : streams.flows) flow.share *= factor;
  streams.latency_ns = to_ns(row->latency_s);
  return streams;
}

Traffic one_traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                    Way way) {
  Traffic result = calibrated_streams(cluster, kind, devices, way);
  merge(&result.flows);
  result.seconds_per_byte = alone_s(cluster, result.flows);
  return result;
}

Traffic lockstep_of(const Cluster& cluster, CommKind kind,
                    std::span<const std::vector<DeviceId>> instances, Way way) {
  if (instances.empty()) return {};
  Traffic all;
  std::vector<std::size_t> ends;  // of each instance's flows
  bool alike = true;              // all have the same ways under the same load
  for (const std::vector<DeviceId>& devices : instances) {
    Traffic one = calibrated_streams(cluster, kind, devices, way);
    alike &= all.latency_ns == 0 || one.latency_ns <= all.latency_ns;
    all.latency_ns = std::max(all.latency_ns, one.latency_ns);
    all.between_nodes |= one.between_nodes;
    std::ranges::move(one.flows, std::back_inserter(all.flows));
    ends.push_back(all.flows.size());
  }
  const Loads total = loads_of(all.flows);
  all.seconds_per_byte = alone_s(cluster, total, all.flows);
  std::size_t flow = 0;
  for (const std::size_t end : ends) {
    double busiest = 0;
    for (; flow < end; ++flow) {
      busiest = std::max(busiest, limited_s(all.flows[flow]));
      for (const LinkId link : all.flows[flow].links)
        busiest = std::max(busiest, load_on(total, link) / cluster.link(link).bytes_per_s);
    }
    alike &= busiest >= all.seconds_per_byte * (1 - 1e-12);
  }
  if (alike) {
    Traffic first = one_traffic(cluster, kind, instances[0], way);
    first.seconds_per_byte = all.seconds_per_byte;
    if (first.latency_ns == all.latency_ns && scale_streams(total, &first.flows)) return first;
  }
  merge(&all.flows);
  return all;
}

// The ways of an operation, but for its protocols.
std::vector<Way> ways(const ClusterSpec& spec, CommKind kind) {
  std::vector<Way> found = {std::nullopt};
  if (kind != CommKind::AllReduce) return found;
  if (spec.trees) found.emplace_back(Algorithm::Tree);
  if (spec.nvls) found.emplace_back(Algorithm::Nvls);
  return found;
}

bool is_collective(CommKind kind) {
  return kind == CommKind::AllReduce || kind == CommKind::ReduceScatter ||
         kind == CommKind::AllGather;
}

// Adds the low-latency protocol's ways, and drops every way that another one beats at all sizes.
Choices with_protocols(const ClusterSpec& spec, CommKind kind, Choices all) {
  const std::size_t plain = is_collective(kind) ? all.size() : 0;
  for (std::size_t i = 0; i < plain; ++i) {
    const LowLatency& low = all[i].between_nodes ? spec.inter_low_latency : spec.intra_low_latency;
    if (low.latency >= 1 || all[i].flows.empty()) continue;
    Traffic quick = all[i];
    quick.latency_ns = std::llround(static_cast<double>(quick.latency_ns) * low.latency);
    quick.seconds_per_byte /= low.rate;
    for (Flow& flow : quick.flows) flow.share /= low.rate;
    all.push_back(std::move(quick));
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

Choices choices(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices) {
  Choices all;
  for (const Way way : ways(cluster.spec(), kind)) {
    all.push_back(one_traffic(cluster, kind, devices, way));
    if (row_of(cluster, kind, devices) != nullptr) return all;
  }
  return with_protocols(cluster.spec(), kind, std::move(all));
}

Traffic traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices) {
  return std::move(choices(cluster, kind, devices).back());
}

Choices lockstep_choices(const Cluster& cluster, CommKind kind,
                         std::span<const std::vector<DeviceId>> instances) {
  Choices all;
  for (const Way way : ways(cluster.spec(), kind)) {
    all.push_back(lockstep_of(cluster, kind, instances, way));
    if (std::ranges::any_of(instances, [&](const std::vector<DeviceId>& devices) {
          return row_of(cluster, kind, devices) != nullptr;
        }))
      return all;
  }
  return with_protocols(cluster.spec(), kind, std::move(all));
}

Traffic lockstep_traffic(const Cluster& cluster, CommKind kind,
                         std::span<const std::vector<DeviceId>> instances) {
  return std::move(lockstep_choices(cluster, kind, instances).back());
}

Nanoseconds transfer_ns(const Cluster& cluster, Bytes bytes, DeviceId from, DeviceId to) {
  return collective_ns(cluster, CommKind::SendRecv, bytes, std::vector{from, to});
}

Nanoseconds collective_ns(const Cluster& cluster, CommKind kind, Bytes bytes,
                          std::span<const DeviceId> devices) {
  return duration_ns(choices(cluster, kind, devices), bytes);
}

}  // namespace tandem
