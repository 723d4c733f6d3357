#include "planning/what_if/routing_cost.h"

#include <algorithm>

#include "planning/play/play_job.h"
#include "workload/model/blocks.h"
#include "workload/model/routing.h"

namespace tandem {
namespace {

// Whether all experts get equal loads.
bool is_even(const Model& model, const Plan& plan) {
  return std::ranges::all_of(kinds_in(model, 0, model.layers), [&](const LayersOfKind& each) {
    return !each.kind->is_moe() || equal_expert_loads(*each.kind, plan);
  });
}

}  // namespace

Result<std::optional<RoutingCost>> routing_cost(const Scenario& scenario) {
  const JobSettings& job = scenario.job;
  if (!job.model.is_moe() || scenario.costs.uniform) return std::optional<RoutingCost>();
  if (is_even(job.model, job.plan)) return std::optional<RoutingCost>(RoutingCost{});
  Scenario routed = scenario;
  routed.variability = routed.variability.without_disturbances();
  Scenario forced = routed;
  forced.job.model = evenly_routed(std::move(forced.job.model));
  ASSIGN_OR_RETURN(const MeasuredJob with, play_ideal(routed));
  ASSIGN_OR_RETURN(const MeasuredJob without, play_ideal(forced));
  const double iteration_s = with.metrics.iteration_s;
  const double longer_s = iteration_s - without.metrics.iteration_s;
  // Unequal loads lengthen compute, exposed expert communication and the bubble. The bubble's
  // growth is attributed to the first two in proportion to theirs.
  const auto growth = [&](auto get) {
    return std::max(0.0, get(with.metrics) - get(without.metrics));
  };
  const double compute_s = growth([](const Metrics& m) { return m.compute_s; });
  const double exposed_s =
      growth([](const Metrics& m) { return m.exposed_s[static_cast<int>(GroupKind::Expert)]; });
  const double both_s = compute_s + exposed_s;
  const double compute_share = both_s > 0 ? compute_s / both_s : 1;
  return std::optional<RoutingCost>(RoutingCost{/*equal_loads=*/false, longer_s / iteration_s,
                                                compute_share * longer_s / iteration_s});
}

}  // namespace tandem
