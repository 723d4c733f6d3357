// Traffic: what a transfer or a collective puts on which links, and what it costs alone.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "topology/cluster.h"
#include "topology/comm_kind.h"

namespace tandem {

// `multiplicity` equal flows of `share` x the operation's bytes each, over the same links; each
// at `limit_bytes_per_s` at most, whatever the links have (0: no limit).
struct Flow {
  std::vector<LinkId> links;
  double share = 0;
  int multiplicity = 1;
  double limit_bytes_per_s = 0;
};

// Seconds for each byte of the operation that its limit makes a flow take; 0: it has none.
double limited_s(const Flow& flow);

// An operation's traffic per byte. All flows run at once; the operation ends `latency_ns` after the
// last one would have ended. Flows of one Traffic have different lists of links.
struct Traffic {
  std::vector<Flow> flows;
  Nanoseconds latency_ns = 0;
  double seconds_per_byte = 0;  // alone: the busiest link's load over its bandwidth, or a limit's
  bool between_nodes = false;
  int way = 0;  // its number among all ways of its kind on the cluster
};

// What it takes alone: latency + bytes x seconds_per_byte.
Nanoseconds duration_ns(const Traffic& traffic, Bytes bytes);

// The ways that one operation can go, of which its size decides: by growing latency and falling
// seconds_per_byte, so that the last one is for the largest. Never empty.
using Choices = std::vector<Traffic>;

// The fastest alone for so many bytes, by its place; of equal ones the first. As NCCL does it: with
// a latency and a rate of every algorithm and protocol. So a larger message never takes less time.
std::size_t fastest(const Choices& choices, Bytes bytes);
// Its time.
Nanoseconds duration_ns(const Choices& choices, Bytes bytes);

// The ways of one operation between `devices`, in ring order; no flows for fewer than two.
//
// Collectives run as rings (NCCL's algorithm for large messages): per rank 2(n-1)/n (all-reduce) or
// (n-1)/n of the bytes to its neighbour, in 2(n-1) or n-1 latency steps (Patarasuk and Yuan 2009).
// On one node a pass takes as long as the spec's ring_fill_steps more.
// A group with k ranks on each of its nodes runs k rings, each through another rank's NIC; what
// they carry between nodes is charged at the spec's ring_efficiency.
//
// Hierarchical, with k ranks on each of m nodes: rings on every node, 2(k-1)/k of the bytes in
// 2(k-1) steps, and beside them rings between the ranks of equal place, 2(m-1)/m of 1/k of the
// bytes in 2(m-1) steps; half of both for reduce-scatter and all-gather. Groups of another form
// stay in flat rings. With in-network reduction an all-reduce puts 1/k of the bytes on each link
// between nodes, up and down, in 2 steps.
//
// An all-reduce has more ways where the spec says so. With trees, over m nodes of k ranks each: 1/k
// of the bytes along two binary trees between the ranks of equal place, half along each, up and
// down in 2 ceil(log2 m) steps, and 2(k-1)/k of them along the nodes' links in 2(k-1) steps. With
// nvls the node's switch does its part: (k+1)/k of the bytes over nvls_efficiency, in 2 steps.
// Every collective has its low-latency protocol as one more way, where the spec has one.
//
// AllToAll sends pairwise, n-1 steps. RingShift keeps to the order of `devices`.
//
// Whatever the operation and its way, `devices` are one communicator: what leaves a node, or comes
// to it, does so at the spec's communicator_bytes_per_s at most. All flows between nodes keep to
// the pace of the busiest node: k equal ones that leave it have 1/k of that rate each.
//
// Where the spec's calibration has a row of the kind, for as many ranks on as many nodes, all flows
// grow or shrink alike, so that the operation alone takes the row's time; it has no other way.
Choices choices(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices);

// The way of a large message.
Traffic traffic(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices);

// The way of that number.
Traffic traffic_by(const Cluster& cluster, CommKind kind, std::span<const DeviceId> devices,
                   int way);

// The ways of many operations that run in lock step, without their flows: an entry for each, or one
// where all are alike. Each has its own latency and its communicator's rate to itself, and takes
// what its own links take that carry all.
std::vector<Choices> lockstep_choices(const Cluster& cluster, CommKind kind,
                                      std::span<const std::vector<DeviceId>> instances);

// What one operation costs alone on an idle cluster.
Nanoseconds transfer_ns(const Cluster& cluster, Bytes bytes, DeviceId from, DeviceId to);
Nanoseconds collective_ns(const Cluster& cluster, CommKind kind, Bytes bytes,
                          std::span<const DeviceId> devices);

}  // namespace tandem
