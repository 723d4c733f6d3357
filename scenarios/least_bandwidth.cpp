#include "scenarios/least_bandwidth.h"

#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "sim/engines.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

constexpr double kExposedShare = 0.05;
constexpr double kSlowest_Gbitps = 1;
constexpr double kFastest_Gbitps = 1e5;
constexpr double kTolerance = 1.02;

}  // namespace

std::optional<double> least_internode_Gbitps(const Scenario& scenario, Prepared* prepared) {
  const auto enough = [&](double node_Gbitps) {
    ClusterSpec spec = scenario.cluster;
    spec.nic_bytes_per_s = node_Gbitps * Gbit / spec.nics_per_node;
    auto cluster = Cluster::build(spec, prepared->cluster.gpus());
    CHECK(cluster.ok());
    price(&prepared->program, *cluster, prepared->placement);
    const auto trace = ideal(prepared->program);
    CHECK(trace.ok());
    const Metrics metrics = measure(prepared->program, *trace);
    return metrics.exposed_between_nodes_s <= kExposedShare * metrics.iteration_s;
  };
  if (enough(kSlowest_Gbitps)) return 0;
  if (!enough(kFastest_Gbitps)) return std::nullopt;
  double low = kSlowest_Gbitps, high = kFastest_Gbitps;
  while (high > low * kTolerance) {
    const double middle = std::sqrt(low * high);
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace tandem
