// Finds the bandwidth between nodes at which 5 % of the iteration is exposed communication: time in
// which a rank waits for communication and computes nothing. The method is a bracketed secant on
// the logarithms of bandwidth and exposed share. The bracket reaches from the highest bandwidth
// that is too little to the lowest that is enough. Every third step halves it, since the share may
// jump.
#include "planning/what_if/least_bandwidth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "job/compile.h"
#include "job/site.h"
#include "sim/engines.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

constexpr double kExposedShare = 0.05;
constexpr double kSlowest_Gbitps = 1;
constexpr double kFastest_Gbitps = 1e5;
constexpr double kTolerance = 1.02;  // the bracket's ends differ by less: the search ends
// A share this near to 5 % ends the search. It is half of the tolerance that the header promises.
constexpr double kNear = 1.01;

double node_Gbitps(const ClusterSpec& spec) {
  return spec.nics_per_node * spec.nic_bytes_per_s / Gbit;
}

// Returns the scenario with this bandwidth of a node.
Scenario with_node_Gbitps(Scenario scenario, double node_Gbitps) {
  ClusterSpec& spec = scenario.cluster.spec;
  spec.nic_bytes_per_s = node_Gbitps * Gbit / spec.nics_per_node;
  return scenario;
}

// Returns the exposed share divided by 5 %. Above 1, more bandwidth is needed.
double excess(const Metrics& metrics) {
  return static_cast<double>(metrics.exposed_between_nodes_s) /
         (kExposedShare * metrics.iteration_s);
}

// Returns whether another bandwidth between nodes changes nothing but the prices of communication.
// False if the order is made for costs: it changes, too. False if tensor groups cross nodes: their
// collectives hide the CPU's time to launch kernels, so that compute changes.
bool changes_prices_alone(const Scenario& scenario, const CompiledJob& job) {
  const JobSettings& settings = scenario.job;
  const bool is_named = settings.order_file.empty() && !settings.found_order;
  const bool made_for_costs =
      settings.plan.vocabulary > 0 || (is_named && traits_of(settings.order).made_for_costs());
  const bool tensor_crosses = std::ranges::any_of(
      job.program.communicators,
      [](const Communicator& c) { return c.group_kind == GroupKind::Tensor && c.between_nodes; });
  return !made_for_costs && !tensor_crosses;
}

// Plays a scenario's job at one bandwidth after another.
class Trials {
 public:
  Trials(const Scenario& scenario, MeasuredJob played)
      : scenario_(scenario),
        played_(std::move(played)),
        reprices_(changes_prices_alone(scenario, played_.job)) {}

  double excess_at(double node_Gbitps) {
    const Scenario changed = with_node_Gbitps(scenario_, node_Gbitps);
    if (reprices_) {
      if (const auto metrics = repriced(changed)) return excess(*metrics);
    }
    const auto played = play_ideal(changed);
    // The play fails if a transfer takes longer than a clock can hold.
    return played.ok() ? excess(played->metrics) : std::numeric_limits<double>::infinity();
  }

 private:
  // Returns the metrics at new prices. Nothing: the job was extrapolated from repeating rounds,
  // which do not repeat at this bandwidth.
  std::optional<Metrics> repriced(const Scenario& changed) {
    auto cluster = make_cluster(changed);
    CHECK(cluster.ok());
    auto& [job, options, trace, metrics, ops, wall_s, rounds] = played_;
    if (rounds) {
      price(std::array{&rounds->shorter.program, &job.program}, *cluster, job.site.placement);
      return steady_metrics(job, *rounds);
    }
    price(&job.program, *cluster, job.site.placement);
    const auto again = ideal(job.program);
    CHECK(again.ok());
    return measure(job.program, *again);
  }

  const Scenario& scenario_;
  MeasuredJob played_;  // repriced() changes its prices
  const bool reprices_;
};

struct Trial {
  double node_Gbitps = 0, excess = 0;
};

// Proposes the next bandwidth by the secant: the b for which c b^p is 1, with the c and p that fit
// the excess of `before` and `last`. Without `before`, p is -1. It counts as at most -0.1, as more
// bandwidth has to lower the excess.
double proposal(const Trial& last, const std::optional<Trial>& before) {
  double power = -1;
  if (before && before->excess > 0 && before->excess != last.excess)
    power =
        std::log(last.excess / before->excess) / std::log(last.node_Gbitps / before->node_Gbitps);
  return last.node_Gbitps * std::pow(last.excess, -1 / std::min(power, -0.1));
}

}  // namespace

std::optional<double> least_internode_Gbitps(const Scenario& scenario, MeasuredJob played) {
  Trial last{node_Gbitps(scenario.cluster.spec), excess(played.metrics)};
  Trials trials(scenario, std::move(played));
  std::optional<Trial> before;
  double low = 0, high = std::numeric_limits<double>::infinity();  // too little; enough
  for (int tries = 1;; ++tries) {
    const auto [tried_Gbitps, excess] = last;
    if (excess > 1 / kNear && excess < kNear) return tried_Gbitps;
    if (excess <= 1 && tried_Gbitps <= kSlowest_Gbitps) return 0;
    if (excess > 1 && tried_Gbitps >= kFastest_Gbitps) return std::nullopt;
    (excess > 1 ? low : high) = tried_Gbitps;
    if (high <= low * kTolerance) return high;
    double next = std::clamp(proposal(last, before), kSlowest_Gbitps, kFastest_Gbitps);
    // Halving now and then bounds the number of trials if the share jumps.
    const bool halves = low > 0 && std::isfinite(high) && tries % 3 == 0;
    if (halves || next <= low || next >= high) next = std::sqrt(low * high);
    before = last;
    last = {next, trials.excess_at(next)};
  }
}

}  // namespace tandem
