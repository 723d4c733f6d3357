// A cluster that must build, some of its GPUs, and what operations on them take in lock step.
#pragma once

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "topology/cluster.h"
#include "topology/traffic.h"

namespace tandem {

inline Cluster build(const ClusterSpec& spec, int gpus) {
  auto cluster = Cluster::build(spec, gpus);
  INFO((cluster ? "" : cluster.error().text()));
  REQUIRE(cluster.ok());
  return std::move(cluster).value();
}

// first, first + stride, ...
inline std::vector<DeviceId> devices(int count, int first = 0, int stride = 1) {
  std::vector<DeviceId> result;
  for (int i = 0; i < count; ++i) result.push_back(DeviceId{first + i * stride});
  return result;
}

// The way of a large message, of operations that are alike.
inline Traffic lockstep_traffic(const Cluster& cluster, CommKind kind,
                                const std::vector<std::vector<DeviceId>>& instances) {
  const std::vector<Choices> each = lockstep_choices(cluster, kind, instances);
  REQUIRE(each.size() == 1);
  return each[0].back();
}

}  // namespace tandem
