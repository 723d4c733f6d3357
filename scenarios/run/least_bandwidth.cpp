#include "scenarios/run/least_bandwidth.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "scenarios/run/failed_links.h"
#include "sim/engines.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

constexpr double kExposedShare = 0.05;
constexpr double kSlowest_Gbitps = 1;
constexpr double kFastest_Gbitps = 1e5;
constexpr double kTolerance = 1.02;

struct Exposed {
  double between_nodes_s = 0;
  double rest_s = 0;

  bool small() const { return between_nodes_s <= kExposedShare * (between_nodes_s + rest_s); }
};

Exposed exposed_at(double node_Gbitps, const Scenario& scenario, CompiledJob* job) {
  ClusterSpec spec = scenario.cluster.spec;
  spec.nic_bytes_per_s = node_Gbitps * Gbit / spec.nics_per_node;
  auto cluster = Cluster::build(spec, job->cluster.gpus());
  CHECK(cluster.ok());
  if (scenario.variability.slow_link.fails_for_good())
    CHECK(take_out_failed_links(scenario.variability.slow_link, &*cluster).ok());
  price(&job->program, *cluster, job->placement);
  const auto trace = ideal(job->program);
  CHECK(trace.ok());
  const Metrics metrics = measure(job->program, *trace);
  return {metrics.exposed_between_nodes_s, metrics.iteration_s - metrics.exposed_between_nodes_s};
}

// Where the share would be met if exposed time went as 1 / bandwidth and the rest stayed as it is.
double proposal(double node_Gbitps, const Exposed& exposed) {
  return node_Gbitps * exposed.between_nodes_s * (1 - kExposedShare) /
         (kExposedShare * exposed.rest_s);
}

}  // namespace

std::optional<double> least_internode_Gbitps(const Scenario& scenario, CompiledJob* job) {
  double low = kSlowest_Gbitps, high = kFastest_Gbitps;  // too little; enough
  if (exposed_at(low, scenario, job).small()) return 0;
  double next = scenario.cluster.spec.nics_per_node * scenario.cluster.spec.nic_bytes_per_s / Gbit;
  while (high > low * kTolerance) {
    const Exposed exposed = exposed_at(next, scenario, job);
    (exposed.small() ? high : low) = next;
    if (low >= kFastest_Gbitps / kTolerance) return std::nullopt;
    // A step beyond the proposal, so that the answer comes to lie between two neighbours.
    const double beyond = exposed.small() ? 1 / std::sqrt(kTolerance) : std::sqrt(kTolerance);
    next = proposal(next, exposed) * beyond;
    if (!(next > low && next < high)) next = std::sqrt(low * high);
  }
  return high;
}

}  // namespace tandem
