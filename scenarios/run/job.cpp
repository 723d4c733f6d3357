#include "scenarios/run/job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace tandem {
namespace {

// Where `ranks` ranks are, the first of them and every stride-th.
std::vector<DeviceId> devices_of(const Placement& placement, int first, int ranks, int stride) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < ranks; ++i) devices.push_back(placement[first + i * stride]);
  return devices;
}

// What an operation of the job takes alone.
Nanoseconds alone_ns(const Scenario& scenario, const Cluster& cluster, GroupKind group_kind,
                     CommKind kind, Bytes bytes, const std::vector<DeviceId>& devices) {
  const CommCost cost = comm_costs(scenario)[static_cast<std::size_t>(group_kind)];
  return duration_ns(at_cost(choices(cluster, kind, devices), group_kind, cost), bytes);
}

// An all-reduce of the slowest tensor group. In blocks, where groups lie on nodes repeats with
// nodes that are alike.
Nanoseconds slowest_tensor_ns(const Scenario& scenario, const Cluster& cluster,
                              const Placement& placement, Bytes bytes) {
  const Plan& plan = scenario.plan;
  const std::int64_t period = std::lcm(std::int64_t{plan.tp}, cluster.spec().gpus_per_node);
  const int groups_end = scenario.cyclic || !cluster.nodes_alike()
                             ? plan.gpus()
                             : static_cast<int>(std::min<std::int64_t>(period, plan.gpus()));
  Nanoseconds slowest = 0;
  for (int first = 0; first < groups_end; first += plan.tp)
    slowest = std::max(slowest, alone_ns(scenario, cluster, GroupKind::Tensor, CommKind::AllReduce,
                                         bytes, devices_of(placement, first, plan.tp, 1)));
  return slowest;
}

// The stated seconds, as a stated software makes them; another one's stretch is 1.
UniformCosts uniform_costs(const Scenario& scenario) {
  const UniformCosts& own = *scenario.uniform;
  const double slowdown = scenario.profile.compute_stretch;
  return {own.forward_s * slowdown, own.backward_s * slowdown, own.input_s * slowdown,
          own.weight_s * slowdown};
}

// Seconds of a pass when nothing overlaps.
double seconds(const Pass& pass, const Scenario& scenario, const Cluster& cluster,
               const Placement& placement) {
  const Plan& plan = scenario.plan;
  Nanoseconds sum = 0;
  for (const Step& step : pass.steps) {
    sum += step.duration_ns;
    if (step.computes) continue;
    const auto [ranks, stride] = step.group_kind == GroupKind::Tensor ? std::pair{plan.tp, 1}
                                 : step.group_kind == GroupKind::Context
                                     ? std::pair{plan.cp, plan.tp}
                                     : std::pair{plan.ep, plan.expert_tensor()};
    sum += alone_ns(scenario, cluster, step.group_kind, step.collective, step.bytes,
                    devices_of(placement, 0, ranks, stride));
  }
  return to_seconds(sum);
}

}  // namespace

Placement placement_of(const Scenario& scenario, const Cluster& cluster) {
  return scenario.cyclic ? dealt_round(scenario.gpus, cluster.spec().gpus_per_node)
                         : in_order(scenario.gpus);
}

OrderedPlan plan_of(const Scenario& scenario, bool ends_on_one_rank, int copies) {
  return {scenario.plan, copies, ends_on_one_rank};
}

OrderedPlan plan_of(const Scenario& scenario, const Order& order) {
  const std::vector<int> rank_of = stage_to_rank(order);
  return plan_of(scenario, rank_of.front() == rank_of.back(), order.chains);
}

OrderedPlan plan_of_chain(const Scenario& scenario) {
  const Plan& plan = scenario.plan;
  const std::vector<int> rank_of = ranks_of_chain(traits_of(scenario.order), plan.pp, plan.vpp);
  return plan_of(scenario, rank_of.front() == rank_of.back(), 1);
}

std::array<CommCost, kGroupKinds> comm_costs(const Scenario& scenario) {
  std::array<CommCost, kGroupKinds> costs;
  const FrameworkProfile& profile = scenario.profile;
  const auto of = [&](GroupKind group_kind) -> CommCost& {
    return costs[static_cast<std::size_t>(group_kind)];
  };
  const bool partial = scenario.plan.tp < scenario.cluster.gpus_per_node;
  of(GroupKind::Tensor) = {profile.tensor_stretch * (partial ? profile.partial_tensor_stretch : 1),
                           profile.tensor_overhead_s};
  of(GroupKind::Pipeline) = {profile.pipeline_stretch, profile.pipeline_overhead_s};
  of(GroupKind::Data).slowdown =
      scenario.plan.zero == 3 ? profile.zero3_stretch : profile.data_stretch;
  return costs;
}

Workload workload(const Scenario& scenario, const OrderedPlan& plan, const Cluster& cluster,
                  const Placement& placement) {
  const Model& model = scenario.model;
  if (scenario.uniform) {
    Workload work = uniform_workload(uniform_costs(scenario), plan.stages());
    work.pipeline_bytes = std::llround(scenario.p2p_bytes);
    return work;
  }
  const Bytes block_bytes = static_cast<Bytes>(stored_bytes(plan)) * model.seq / plan.cp *
                            plan.micro_batch * model.hidden;
  return make_workload(model, plan, scenario.cost_model(),
                       slowest_tensor_ns(scenario, cluster, placement, block_bytes));
}

Workload workload(const Scenario& scenario, const Order& order, const Cluster& cluster,
                  const Placement& placement) {
  Workload work = workload(scenario, plan_of(scenario, order), cluster, placement);
  const std::vector<StageWork> one = work.stages;
  for (int copy = 1; copy < order.chains; ++copy)
    work.stages.insert(work.stages.end(), one.begin(), one.end());
  return work;
}

std::vector<OrderCosts> order_costs(const Scenario& scenario, const OrderedPlan& plan,
                                    const Cluster& cluster) {
  const Placement placement = placement_of(scenario, cluster);
  const Workload work = workload(scenario, plan, cluster, placement);
  const int next = plan.tp * plan.cp * plan.dp;  // the same rank of the next stage
  const double transfer_s =
      plan.pp == 1 ? 0
                   : to_seconds(alone_ns(scenario, cluster, GroupKind::Pipeline, CommKind::SendRecv,
                                         work.pipeline_bytes, {placement[0], placement[next]}));
  if (scenario.uniform) {
    const UniformCosts own = uniform_costs(scenario);
    return std::vector<OrderCosts>(plan.stages(),
                                   {own.forward_s, own.input_s, own.weight_s, transfer_s});
  }
  std::vector<OrderCosts> costs;
  for (const StageWork& stage : work.stages)
    costs.push_back({seconds(stage.forward, scenario, cluster, placement),
                     seconds(stage.backward_input, scenario, cluster, placement),
                     seconds(stage.backward_weight, scenario, cluster, placement), transfer_s});
  return costs;
}

LowerOptions lower_options(const Scenario& scenario, const Order& order) {
  const Plan& plan = scenario.plan;
  LowerOptions options;
  options.tp = plan.tp;
  options.dp = plan.dp;
  options.cp = plan.cp;
  options.ep = plan.ep;
  options.expert_tp = plan.expert_tensor();
  options.overlap_p2p =
      scenario.overlap_p2p.value_or(overlaps_p2p_by_default(order) && !scenario.batch_p2p);
  options.batch_p2p = scenario.batch_p2p;
  options.data = scenario.data;
  options.p2p_sms = scenario.p2p_sms;
  options.expert_overlap = scenario.expert_overlap;
  if (!scenario.uniform)
    options.device = {scenario.cluster.device.sms, scenario.cluster.device.memory_bytes_per_s};
  return options;
}

}  // namespace tandem
