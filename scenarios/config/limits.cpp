#include "scenarios/config/limits.h"

#include <fmt/format.h>

#include <string>

#include "scenarios/run/job.h"

namespace tandem {
namespace {

// The whole number that a key is set to, or as it is by itself.
double limit_of(const Setting& setting, double otherwise) {
  if (const auto* integer = std::get_if<std::int64_t>(&setting.value))
    return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&setting.value);
  return real != nullptr ? *real : otherwise;
}

// The ops of a microbatch on one rank of each pipeline stage.
double ops_of_microbatch(const Scenario& scenario, const Cluster& cluster) {
  const OrderTraits& order = traits_of(scenario.order);
  const OrderedPlan plan = plan_of_chain(scenario);
  const Workload work = workload(scenario, plan, cluster, placement_of(scenario, cluster));
  double ops = 0;
  for (const StageWork& stage : work.stages) {
    ops += static_cast<double>(stage.forward.steps.size());
    ops += static_cast<double>(order.splits_backwards ? stage.backward_input.steps.size() +
                                                            stage.backward_weight.steps.size()
                                                      : stage.backward.steps.size());
  }
  // Forward and back over each edge between two ranks: a send, a receive, and perhaps a gather
  // behind it.
  const std::vector<int> rank_of = ranks_of_chain(order, plan.pp, plan.vpp);
  double edges = 0;
  for (std::size_t stage = 1; stage < rank_of.size(); ++stage)
    edges += rank_of[stage] != rank_of[stage - 1] ? 1 : 0;
  return ops + edges * (work.pipeline_gather_bytes > 0 ? 6 : 4);
}

// The ranks of a stage that none stands for.
int played_ranks(const Scenario& scenario) {
  const Stragglers& slow = scenario.stragglers;
  const bool alike = scenario.fold && scenario.jitter == 0 && slow.ranks.empty() &&
                     slow.nodes.empty() && slow.node_share == 0;
  return alike ? 1 : scenario.plan.tp * scenario.plan.cp * scenario.plan.dp;
}

}  // namespace

Status check_runs(const ScenarioFile& file,
                  const std::vector<std::pair<std::string, Setting>>& sets) {
  double limit = Limits{}.runs;
  constexpr const char* kKey = "limits.runs";
  if (const auto at = file.base.find(kKey); at != file.base.end())
    limit = limit_of(at->second, limit);
  for (const auto& [key, setting] : sets) {
    if (key == kKey) limit = limit_of(setting, limit);
  }
  double runs = 1;
  std::string axes;
  for (const Axis& axis : file.axes) {
    runs *= static_cast<double>(axis.points.size());
    axes += fmt::format("{}{} of {}", axes.empty() ? "" : " x ", axis.points.size(), axis.name);
  }
  if (runs <= limit) return Done{};
  return Error::at(
      file.path,
      fmt::format(
          "found {:.16g} runs, {}, expected at most {} = {:.16g}; --set {}={:.16g} allows them",
          runs, axes, kKey, limit, kKey, runs));
}

double count_ops(const Scenario& scenario, const Cluster& cluster) {
  return ops_of_microbatch(scenario, cluster) * scenario.plan.microbatches() *
         played_ranks(scenario);
}

Status check_ops(const Scenario& scenario, const Cluster& cluster) {
  const double limit = scenario.limits.ops;
  const int microbatches = scenario.plan.microbatches();
  const int ranks = played_ranks(scenario);
  // Of most jobs it is plain: no layer has so many steps, but for rings in many parts.
  constexpr double kStepsOfLayer = 200;
  const double layers = scenario.uniform ? 0 : scenario.model.layers;
  if (kStepsOfLayer * (layers + scenario.plan.stages()) * microbatches * ranks <= limit)
    return Done{};
  const double ops = count_ops(scenario, cluster);
  if (ops <= limit) return Done{};
  const std::string times =
      ranks > 1 ? fmt::format(" on {} ranks of a stage, none folded", ranks) : "";
  return Error::at(
      scenario.place_of({"parallel.global_batch", "parallel.micro_batch"}),
      fmt::format("found {} microbatches of {:.0f} ops{}, {:.3g} in all, expected at most "
                  "limits.ops = {:g}; --set limits.ops={:.2g} allows them",
                  microbatches, ops / microbatches / ranks, times, ops, limit, 1.1 * ops));
}

}  // namespace tandem
