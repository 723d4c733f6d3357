// A lowered workload played by both engines, which must agree to a nanosecond an event.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/parallel/parallel.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/price.h"
#include "schedule/order/named_orders.h"
#include "tests/made_order.h"
#include "tests/needs.h"
#include "traces/metrics.h"

namespace tandem {

constexpr Nanoseconds kMs = 1'000'000;

// GPUs with a NIC of 1 GB/s each, and no latency: a megabyte takes a millisecond.
inline ClusterSpec megabyte_a_ms() {
  ClusterSpec spec;
  spec.name = "test";
  spec.gpus_per_node = 1;
  spec.nics_per_node = 1;
  spec.intra_bytes_per_s = 1e15;
  spec.nic_bytes_per_s = 1e9;
  return spec;
}

struct Played {
  Program program;
  Trace trace;
  Metrics metrics;

  Nanoseconds iteration() const { return to_ns(metrics.iteration_s); }
  Nanoseconds exposed(GroupKind group_kind) const {
    return to_ns(metrics.exposed_s[static_cast<std::size_t>(group_kind)]);
  }
  Nanoseconds comm(GroupKind group_kind) const {
    return to_ns(metrics.comm_s[static_cast<std::size_t>(group_kind)]);
  }
};

// The simgrid engine's events, start and end, from a process of its own.
inline std::string simgrid_times(const Program& program, const Cluster& cluster) {
  need_simgrid();
  const auto texts = fork_map(1, 1, [&](int) -> Result<std::string> {
    ASSIGN_OR_RETURN(const Trace trace,
                     simgrid(program, cluster, in_order(static_cast<int>(program.ranks.size()))));
    std::string text;
    for (const EventTimes& event : trace.events)
      text += fmt::format("{} {} ", event.start_ns, event.end_ns);
    return text;
  });
  INFO((texts[0].ok() ? "" : texts[0].error().text()));
  REQUIRE(texts[0].ok());
  return *texts[0];
}

inline Cluster cluster_for(const ClusterSpec& spec, int gpus) {
  const int nodes = (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
  auto cluster = Cluster::build(spec, nodes > 1 ? nodes * spec.gpus_per_node : gpus);
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

inline Played play_ideal(const Order& order, const Workload& work, const LowerOptions& options,
                         const ClusterSpec& spec = megabyte_a_ms()) {
  auto program = lower(order, work, options);
  INFO((program.ok() ? "" : program.error().text()));
  REQUIRE(program.ok());
  const int gpus = static_cast<int>(program->ranks.size());
  price(&*program, cluster_for(spec, gpus), in_order(gpus));
  auto trace = ideal(*program);
  REQUIRE(trace.ok());
  Metrics metrics = measure(*program, *trace);
  return {*std::move(program), *std::move(trace), std::move(metrics)};
}

// For programs in which no two communications share a link.
inline Played play(const Order& order, const Workload& work, const LowerOptions& options,
                   const ClusterSpec& spec = megabyte_a_ms()) {
  Played played = play_ideal(order, work, options, spec);
  const int gpus = static_cast<int>(played.program.ranks.size());
  std::istringstream times(simgrid_times(played.program, cluster_for(spec, gpus)));
  for (const EventTimes& event : played.trace.events) {
    Nanoseconds start = -1, end = -1;
    times >> start >> end;
    REQUIRE(std::abs(event.start_ns - start) <= 1);
    REQUIRE(std::abs(event.end_ns - end) <= 1);
  }
  return played;
}

inline Order order_named(const std::string& name, int pp, int microbatches, int vpp = 1) {
  OrderSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.vpp = vpp;
  spec.microbatches = microbatches;
  return made_order(spec);
}

}  // namespace tandem
