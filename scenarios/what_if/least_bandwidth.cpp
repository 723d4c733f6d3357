#include "scenarios/what_if/least_bandwidth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "scenarios/run/compile.h"
#include "scenarios/run/failed_links.h"
#include "scenarios/run/play_job.h"
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

// A scenario's job, priced anew for one bandwidth after the other.
class Trials {
 public:
  Trials(const Scenario& scenario, CompiledJob* played) : scenario_(scenario) {
    if (played->order.microbatches * played->order.chains == scenario.job.plan.microbatches())
      whole_ = played;
  }

  Exposed at(double node_Gbitps) {
    auto metrics = from_few(node_Gbitps);
    if (!metrics) metrics = played_whole(node_Gbitps);
    return {metrics->exposed_between_nodes_s,
            metrics->iteration_s - metrics->exposed_between_nodes_s};
  }

 private:
  void reprice(double node_Gbitps, const CompiledJob& job,
               std::span<Program* const> programs) const {
    ClusterSpec spec = scenario_.cluster.spec;
    spec.nic_bytes_per_s = node_Gbitps * Gbit / spec.nics_per_node;
    auto cluster = Cluster::build(spec, job.cluster.gpus());
    CHECK(cluster.ok());
    if (scenario_.variability.slow_link.fails_for_good())
      CHECK(take_out_failed_links(scenario_.variability.slow_link, &*cluster).ok());
    price(programs, *cluster, job.placement);
  }

  std::optional<Metrics> from_few(double node_Gbitps) {
    for (std::size_t i = 0; i < kSteadyRounds.size(); ++i) {
      if (i == few_.size()) few_.push_back(short_jobs(scenario_, rounds_, kSteadyRounds[i]));
      if (!few_[i]) break;
      auto& [shorter, longer, round, further] = *few_[i];
      reprice(node_Gbitps, longer, std::array{&shorter.program, &longer.program});
      if (auto metrics = steady_metrics(*few_[i])) return metrics;
    }
    return std::nullopt;
  }

  Metrics played_whole(double node_Gbitps) {
    if (whole_ == nullptr) {
      auto job = compile(scenario_);
      CHECK(job.ok());
      whole_ = &compiled_.emplace(*std::move(job));
    }
    reprice(node_Gbitps, *whole_, std::array{&whole_->program});
    const auto trace = ideal(whole_->program);
    CHECK(trace.ok());
    return measure(whole_->program, *trace);
  }

  const Scenario& scenario_;
  const OrderRounds rounds_ = rounds_of(scenario_);
  std::vector<std::optional<ShortJobs>> few_;  // by kSteadyRounds
  std::optional<CompiledJob> compiled_;
  CompiledJob* whole_ = nullptr;
};

// Where the share would be met if exposed time went as 1 / bandwidth and the rest stayed as it is.
double proposal(double node_Gbitps, const Exposed& exposed) {
  return node_Gbitps * exposed.between_nodes_s * (1 - kExposedShare) /
         (kExposedShare * exposed.rest_s);
}

}  // namespace

std::optional<double> least_internode_Gbitps(const Scenario& scenario, CompiledJob* played) {
  Trials trials(scenario, played);
  double low = kSlowest_Gbitps, high = kFastest_Gbitps;  // too little; enough
  if (trials.at(low).small()) return 0;
  double next = scenario.cluster.spec.nics_per_node * scenario.cluster.spec.nic_bytes_per_s / Gbit;
  while (high > low * kTolerance) {
    const Exposed exposed = trials.at(next);
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
