// Turns a job's settings into costs: compute by the cost model, collectives inside passes by the
// cluster, both times the framework's slowdowns. Times "alone" assume that each operation has the
// cluster to itself, and that operations run one after another: orders are made from these.
#include "job/price_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "job/order_job.h"
#include "job/site.h"
#include "workload/memory/activations.h"
#include "workload/model/moe.h"

namespace tandem {
namespace {

// Gives times of the job's communication, each operation alone on the cluster.
class JobCommTimes {
 public:
  JobCommTimes(const Model& model, const Plan& plan, const CostSettings& costs, const Site& site)
      : site_(site),
        costs_(comm_costs(model, with_placement(plan, site), costs.profile, site.cluster.spec())) {}

  // Returns the time of an operation among `ranks` ranks: `first` and every stride-th one after it.
  Nanoseconds time_ns(GroupKind group_kind, CommKind kind, Bytes bytes, int first, int ranks,
                      int stride) const {
    std::vector<DeviceId> devices;
    for (int i = 0; i < ranks; ++i) devices.push_back(site_.placement[first + i * stride]);
    const CommCost cost = costs_[static_cast<std::size_t>(group_kind)];
    return duration_ns(
        at_training_cost(traffic_choices(site_.cluster, kind, devices), group_kind, cost), bytes);
  }

 private:
  const Site& site_;
  CommCosts costs_;
};

// Returns whether ranks fill node after node: rank 1 is on GPU 1. Otherwise ranks are placed round
// robin over the nodes.
bool in_blocks(const Placement& placement) {
  return placement.size() < 2 || placement[1] == DeviceId{1};
}

// Returns the time of an all-reduce in the slowest tensor group. If ranks fill equal nodes one
// after another, the groups' positions on nodes repeat after lcm(tp, GPUs of a node) ranks: with
// groups of 6 on nodes of 8 after 24 ranks. Then only the groups of one period are tried.
Nanoseconds slowest_tensor_ns(const JobCommTimes& alone, const Plan& plan, const Site& site,
                              Bytes bytes) {
  const auto& [cluster, placement] = site;
  const auto ranks = static_cast<std::int64_t>(placement.size());
  const std::int64_t period = std::lcm(std::int64_t{plan.tp}, cluster.spec().gpus_per_node);
  const bool repeats = in_blocks(placement) && cluster.nodes_alike();
  const int groups_end = static_cast<int>(repeats ? std::min(period, ranks) : ranks);
  Nanoseconds slowest = 0;
  for (int first = 0; first < groups_end; first += plan.tp)
    slowest = std::max(
        slowest, alone.time_ns(GroupKind::Tensor, CommKind::AllReduce, bytes, first, plan.tp, 1));
  return slowest;
}

// Returns the uniform costs times the compute slowdown of costs.software, which is 1 without that
// key.
UniformCosts uniform_costs(const CostSettings& costs) {
  const UniformCosts& own = *costs.uniform;
  const double slowdown = costs.profile.compute_stretch;
  return {own.forward_s * slowdown, own.backward_s * slowdown, own.input_s * slowdown,
          own.weight_s * slowdown};
}

// The first group of a kind: rank 0 and every stride-th rank after it.
struct GroupShape {
  int ranks = 1, stride = 1;
};

// Returns the first group in which a step of a pass communicates.
GroupShape group_of(const Step& step, const Plan& plan) {
  if (step.among_experts) return {plan.expert_tensor(), 1};
  if (step.group_kind == GroupKind::Tensor) return {plan.tp, 1};
  if (step.group_kind == GroupKind::Context) return {plan.cp, plan.tp};
  return {plan.ep, plan.expert_tensor()};
}

// Returns the seconds of a pass if nothing overlaps. A real number holds whatever is refused later.
double seconds_alone(const Pass& pass, const Plan& plan, const JobCommTimes& alone) {
  double sum_ns = 0;
  const auto add = [&](Nanoseconds ns) { sum_ns += static_cast<double>(ns); };
  for (const Step& step : pass.steps) {
    add(step.duration_ns);
    if (step.computes) continue;
    const GroupShape group = group_of(step, plan);
    add(alone.time_ns(step.group_kind, step.collective, step.bytes, 0, group.ranks, group.stride));
  }
  return sum_ns * 1e-9;
}

// Returns how many ranks of a stage are played: one if the ranks fold, as they all do the same.
int played_ranks(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  return scenario.fold && !scenario.variability.makes_ranks_differ() ? 1
                                                                     : plan.tp * plan.cp * plan.dp;
}

// Returns the ops of a microbatch on one rank of each pipeline stage.
double ops_of_microbatch(const Workload& chain, const Plan& plan, const OrderTraits& order) {
  double ops = 0;
  for (const StageWork& stage : chain.stages) {
    ops += static_cast<double>(stage.forward.steps.size());
    ops += static_cast<double>(order.splits_backwards ? stage.backward_input.steps.size() +
                                                            stage.backward_weight.steps.size()
                                                      : stage.backward.steps.size());
  }
  // Each edge between stages on two ranks has a transfer forward and one back. A transfer is a
  // send, a receive, and perhaps an all-gather after it: 2 x 2 or 2 x 3 ops.
  const std::vector<int> rank_of = ranks_of_chain(order, plan.pp, plan.vpp);
  double edges = 0;
  for (std::size_t stage = 1; stage < rank_of.size(); ++stage)
    edges += rank_of[stage] != rank_of[stage - 1] ? 1 : 0;
  ops += edges * (chain.pipeline_gather_bytes > 0 ? 6 : 4);
  if (!chain.vocabulary) return ops;
  const VocabularyWork& work = *chain.vocabulary;
  return ops + plan.pp * static_cast<double>(kVocabularyComms + work.embedding.steps.size() +
                                             work.s.steps.size() + work.t.steps.size() +
                                             work.embedding_gradient.steps.size());
}

}  // namespace

Plan with_placement(Plan plan, const Site& site) {
  std::vector<NodeId> nodes;
  for (int i = 0; i < plan.ep; ++i) {
    const NodeId node = site.cluster.node_of(site.placement[i * plan.expert_tensor()]);
    if (nodes.empty() || node != nodes.back()) nodes.push_back(node);
  }
  std::ranges::sort(nodes);
  plan.expert_nodes = static_cast<int>(std::unique(nodes.begin(), nodes.end()) - nodes.begin());
  return plan;
}

CommCosts comm_costs(const Model& model, const Plan& plan, const FrameworkProfile& profile,
                     const ClusterSpec& cluster) {
  CommCosts costs;
  const auto cost_of = [&](GroupKind group_kind) -> CommCost& {
    return costs[static_cast<std::size_t>(group_kind)];
  };
  const bool is_partial = plan.tp < cluster.gpus_per_node;  // tensor groups are less than a node
  cost_of(GroupKind::Tensor) = {
      profile.tensor_stretch * (is_partial ? profile.partial_tensor_stretch : 1),
      profile.tensor_overhead_s};
  cost_of(GroupKind::Pipeline) = {profile.pipeline_stretch, profile.pipeline_overhead_s};
  cost_of(GroupKind::Data).slowdown =
      plan.gathers_each_microbatch() ? profile.zero3_stretch : profile.data_stretch;
  if (const auto kernel = exchange_kernel(model, plan, cluster))
    cost_of(GroupKind::Expert) = {.overhead_s = kernel->launch_s,
                                  .limit_bytes_per_s = kernel->bytes_per_s,
                                  .posts_at_once = kernel->launch_s > 0};
  return costs;
}

Nanoseconds block_collective_ns(const Model& model, const Plan& plan, const CostSettings& costs,
                                const Site& site, double times) {
  if (plan.tp == 1) return 0;
  // A layer's output, of seq / cp x micro_batch x hidden elements.
  const Bytes bytes = static_cast<Bytes>(stored_bytes(plan)) * model.seq / plan.cp *
                      plan.micro_batch * model.hidden;
  return slowest_tensor_ns({model, plan, costs, site}, plan, site,
                           std::llround(times * static_cast<double>(bytes)));
}

Workload price_workload(const Model& model, const OrderedPlan& plan, const CostSettings& costs,
                        const Site& site, std::optional<Nanoseconds> collective_ns) {
  if (costs.uniform) {
    Workload work = uniform_workload(uniform_costs(costs), plan.stages());
    work.pipeline_bytes = std::llround(costs.p2p_bytes);
    return work;
  }
  OrderedPlan placed = plan;
  placed.expert_nodes = with_placement(plan, site).expert_nodes;
  const CostModel prices = cost_model(costs, site.cluster.spec().device, plan.precision);
  if (!collective_ns) collective_ns = block_collective_ns(model, plan, costs, site);
  return make_workload(model, placed, prices, *collective_ns,
                       [&](const Model& layer, Recompute recompute) {
                         return offloaded_activations(layer, placed, recompute).copied;
                       });
}

Workload for_chains(Workload chain, int chains) {
  const std::vector<StageWork> stages = chain.stages;
  for (int copy = 1; copy < chains; ++copy)
    chain.stages.insert(chain.stages.end(), stages.begin(), stages.end());
  return chain;
}

Workload price_workload(const JobSettings& job, const Order& order, const CostSettings& costs,
                        const Site& site) {
  return for_chains(price_workload(job.model, ordered_plan(job.plan, order), costs, site),
                    order.chains);
}

std::vector<OrderCosts> stage_costs(const Workload& chain, const Model& model, const Plan& plan,
                                    const CostSettings& costs, const Site& site) {
  const JobCommTimes alone(model, plan, costs, site);
  const int stride = plan.tp * plan.cp * plan.dp;  // to the same rank of the next stage
  const double transfer_s = plan.pp == 1
                                ? 0
                                : to_seconds(alone.time_ns(GroupKind::Pipeline, CommKind::SendRecv,
                                                           chain.pipeline_bytes, 0, 2, stride));
  if (costs.uniform) {
    const UniformCosts own = uniform_costs(costs);
    return std::vector<OrderCosts>(plan.stages(),
                                   {own.forward_s, own.input_s, own.weight_s, transfer_s});
  }
  std::vector<OrderCosts> all;
  for (const StageWork& stage : chain.stages)
    all.push_back({seconds_alone(stage.forward, plan, alone),
                   seconds_alone(stage.backward_input, plan, alone),
                   seconds_alone(stage.backward_weight, plan, alone), transfer_s});
  // The last edge carries several arrays both ways: forward from the stage before the last one, and
  // back from the last one.
  if (plan.pp > 1 && chain.last_edge_arrays > 1) {
    all.back().transfer =
        to_seconds(alone.time_ns(GroupKind::Pipeline, CommKind::SendRecv,
                                 chain.last_edge_arrays * chain.pipeline_bytes, 0, 2, stride));
    all[all.size() - 2].transfer = all.back().transfer;
  }
  return all;
}

VocabularyCosts vocabulary_costs(const Workload& chain, const Model& model, const Plan& plan,
                                 const CostSettings& costs, const Site& site) {
  CHECK(chain.vocabulary.has_value());
  const VocabularyWork& work = *chain.vocabulary;
  const JobCommTimes alone(model, plan, costs, site);
  const int stride = plan.tp * plan.cp * plan.dp;  // to the same rank of the next stage
  const auto over_all = [&](CommKind kind, Bytes bytes) {
    return to_seconds(alone.time_ns(GroupKind::Pipeline, kind, bytes, 0, plan.pp, stride));
  };
  const double sum = over_all(CommKind::AllReduce, work.activation_bytes);
  const double send = over_all(CommKind::AllGather, work.activation_bytes);
  return {.embedding = seconds_alone(work.embedding, plan, alone),
          .s = seconds_alone(work.s, plan, alone),
          .t = seconds_alone(work.t, plan, alone),
          .embedding_gradient = seconds_alone(work.embedding_gradient, plan, alone),
          .sum_input = sum,
          .send_output = send,
          .reduce_softmax = over_all(CommKind::AllReduce, work.softmax_bytes),
          .sum_gradient = sum,
          .send_gradient = send};
}

Status check_ops(const Workload& chain, const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  const int ranks = played_ranks(scenario);
  const double a_microbatch = ops_of_microbatch(chain, plan, traits_of(scenario.job.order));
  const double ops = a_microbatch * plan.microbatches() * ranks;
  if (ops <= scenario.limits.ops) return Done{};
  const std::string times =
      ranks > 1 ? fmt::format(" on {} ranks of a stage, none folded", ranks) : "";
  return Error::of(
      {"parallel.global_batch", "parallel.micro_batch"},
      fmt::format("found {} microbatches of {:.0f} ops{}, {:.3g} in all, expected at most "
                  "limits.ops = {:g}; --set limits.ops={:.2g} allows them",
                  plan.microbatches(), a_microbatch, times, ops, scenario.limits.ops, 1.1 * ops));
}

}  // namespace tandem
