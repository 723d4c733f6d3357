// Traffic: the load of a transfer or a collective on links, and its time alone.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "topology/cluster.h"
#include "topology/comm_kind.h"

namespace tandem {

// `multiplicity` equal flows over the same links, each of `share` x the operation's bytes, and each
// at `limit_bytes_per_s` at most, whatever the links offer (0: no limit).
struct Flow {
  std::vector<LinkId> links;
  double share = 0;
  int multiplicity = 1;
  double limit_bytes_per_s = 0;
};

// Returns the seconds that a flow's limit makes it take for each byte of the operation; 0 without
// one.
double limited_s(const Flow& flow);

// The traffic of one operation per byte. All flows run at once. The operation ends `latency_ns`
// after the last of them would. No two flows of one Traffic have the same list of links.
struct Traffic {
  std::vector<Flow> flows;
  Nanoseconds latency_ns = 0;
  double seconds_per_byte = 0;  // alone: of the busiest link or the tightest limit
  bool between_nodes = false;
  int way = 0;  // its number for traffic_by(): 2 for each algorithm before, 1 for low latency
};

// Returns the time of the operation alone: latency + bytes x seconds_per_byte.
Nanoseconds duration_ns(const Traffic& traffic, Bytes bytes);

// The algorithms and protocols that one operation can use. Its size decides. They are sorted by
// growing latency and falling seconds_per_byte, so the last one is for the largest messages. Never
// empty.
using Choices = std::vector<Traffic>;

// Returns the place of the choice that is fastest alone for so many bytes, the first of equals.
// NCCL chooses in this way, from a latency and a rate of every algorithm and protocol. So a larger
// message never takes less time.
std::size_t fastest(const Choices& choices, Bytes bytes);
// Returns the time of the fastest choice.
Nanoseconds duration_ns(const Choices& choices, Bytes bytes);

// Returns the ways of one operation between `devices`, which are in ring order. A way is an
// algorithm in one of NCCL's protocols. Fewer than two devices have no flows.
//
// Collectives run as rings (NCCL's algorithm for large messages). A rank sends 2(n-1)/n
// (all-reduce) or (n-1)/n of the bytes to its neighbour, in 2(n-1) or n-1 latency steps (Patarasuk
// and Yuan 2009). On one node a pass takes the time of ring_fill_steps further steps. A group with
// k ranks on each of its nodes runs k rings, each through another rank's NIC; traffic between nodes
// is charged at the spec's ring_efficiency.
//
// Hierarchical, with k ranks on each of m nodes: rings on every node carry 2(k-1)/k of the bytes in
// 2(k-1) steps. Beside them rings between the ranks of equal place carry 2(m-1)/m of 1/k of the
// bytes in 2(m-1) steps. Reduce-scatter and all-gather have half of both. Groups with unequal nodes
// stay in flat rings. With in-network reduction an all-reduce puts 1/k of the bytes on each link
// between nodes, up and down, in 2 steps.
//
// An all-reduce has more ways if the spec says so. With trees, over m nodes of k ranks each: 1/k of
// the bytes goes along two binary trees between the ranks of equal place, half along each, up and
// down in 2 ceil(log2 m) steps; and 2(k-1)/k of them along the nodes' links in 2(k-1) steps. With
// nvls the node's switch does its part: (k+1)/k of the bytes over nvls_efficiency, in 2 steps.
// Every collective may also run in the low-latency protocol, if the spec has one.
//
// AllToAll sends pairwise, in n-1 steps over nodes and 1 step inside a node. It, RingShift and
// SendRecv send by the NIC of another member where that keeps to a rail (Cluster::sender()); a
// SendRecv's communicator is taken to have it. RingShift keeps to the order of `devices`.
//
// In every way `devices` are one communicator, which sends out of a node, or into it, at the spec's
// communicator_bytes_per_s at most. All flows between nodes keep the pace of the busiest node: if k
// equal flows leave that node, each gets 1/k of the rate.
//
// If the spec's calibration has a row of the kind, for as many ranks on as many nodes, all flows
// are scaled alike, so that the operation alone takes the row's time. The result is then this one
// way.
Choices traffic_choices(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices);

// Returns the traffic of a large message: the last choice.
Traffic traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices);

// Returns the traffic of the way with the number `way` (Traffic::way).
Traffic traffic_by(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                   int way);

// Returns the ways of many operations that run in lock step, without their flows: an entry for each
// operation, or a single entry if all are alike. Each operation has its own latency and its own
// communicator's limit. Its seconds_per_byte count the load of all operations on its links.
std::vector<Choices> lockstep_choices(const Cluster& cluster, CommKind kind,
                                      std::span<const std::vector<DeviceId>> instances);

// Return the time of one operation alone on an idle cluster.
Nanoseconds transfer_ns(const Cluster& cluster, Bytes bytes, DeviceId from, DeviceId to);
Nanoseconds collective_ns(const Cluster& cluster, CommKind kind, Bytes bytes,
                          std::span<const DeviceId> devices);

}  // namespace tandem
