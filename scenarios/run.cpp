#include "scenarios/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "base/fork_map.h"
#include "base/progress.h"
#include "scenarios/least_bandwidth.h"
#include "scenarios/savings.h"
#include "schedule/lower.h"
#include "schedule/order_text.h"
#include "schedule/validate.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

// The keys that the message names, in its order.
std::vector<std::string> keys_in(const std::string& message) {
  std::vector<std::string> keys;
  std::istringstream words(message);
  for (std::string word; words >> word;) {
    word.erase(word.find_last_not_of(",:;.") + 1);
    if (word.find('.') != std::string::npos) keys.push_back(word);
  }
  return keys;
}

// The Error with the place where the first of the keys stands that it names, else the first of
// `others`.
Error placed(const Scenario& scenario, const std::vector<std::string>& others, const Error& error) {
  std::vector<std::string> keys;
  for (const std::string& key : keys_in(error.message)) {
    if (scenario.places.contains(key)) keys.push_back(key);
  }
  keys.insert(keys.end(), others.begin(), others.end());
  return Error{fmt::format("{}: {}", scenario.place_of(keys), error.message), error.kind};
}

// Uniform costs know no cluster: every transfer takes p2p_s, whatever it carries.
ClusterSpec uniform_cluster(double p2p_s) {
  ClusterSpec spec;
  spec.name = "uniform";
  spec.gpus_per_node = 1;
  spec.nics_per_node = 1;
  spec.intra_bytes_per_s = spec.nic_bytes_per_s = 1e15;
  spec.inter_latency_s = p2p_s;
  return spec;
}

// The plan with what the order says of it.
Plan plan_of(const Scenario& scenario, bool ends_on_one_rank, int copies) {
  Plan plan = scenario.plan;
  plan.ends_on_one_rank = ends_on_one_rank;
  plan.copies = copies;
  return plan;
}

Plan plan_of(const Scenario& scenario, const Order& order) {
  const std::vector<int> rank_of = stage_to_rank(order);
  return plan_of(scenario, rank_of.front() == rank_of.back(), order.chains);
}

// An all-reduce of the slowest tensor group. Where groups lie on nodes repeats with the nodes.
Nanoseconds slowest_tensor_ns(const Cluster& cluster, const Plan& plan, Bytes bytes) {
  const std::int64_t period = std::lcm(std::int64_t{plan.tp}, cluster.spec().gpus_per_node);
  const int groups_end = static_cast<int>(std::min<std::int64_t>(period, plan.gpus()));
  Nanoseconds slowest = 0;
  for (int first = 0; first < groups_end; first += plan.tp) {
    std::vector<DeviceId> ranks;
    for (int i = 0; i < plan.tp; ++i) ranks.push_back(static_cast<DeviceId>(first + i));
    slowest = std::max(slowest, collective_ns(cluster, CommKind::AllReduce, bytes, ranks));
  }
  return slowest;
}

// One chain's work.
Workload workload(const Scenario& scenario, const Plan& plan, const Cluster& cluster) {
  const Model& model = scenario.model;
  if (scenario.uniform) return uniform_workload(*scenario.uniform, plan.stages());
  const Bytes block_bytes = static_cast<Bytes>(stored_bytes(plan)) * model.seq / plan.cp *
                            plan.micro_batch * model.hidden;
  return make_workload(model, plan, CostModel{scenario.cluster.device, plan.precision},
                       slowest_tensor_ns(cluster, plan, block_bytes));
}

// Seconds of a pass when nothing overlaps.
double seconds(const Pass& pass, const Plan& plan, const Cluster& cluster) {
  Nanoseconds sum = 0;
  for (const Step& step : pass.steps) {
    sum += step.duration_ns;
    if (step.computes) continue;
    const auto [ranks, stride] = step.scope == Scope::Tensor ? std::pair{plan.tp, 1}
                                 : step.scope == Scope::Context
                                     ? std::pair{plan.cp, plan.tp}
                                     : std::pair{plan.ep, plan.expert_tensor()};
    std::vector<DeviceId> devices;
    for (int i = 0; i < ranks; ++i) devices.push_back(static_cast<DeviceId>(i * stride));
    sum += collective_ns(cluster, step.collective, step.bytes, devices);
  }
  return to_seconds(sum);
}

// What every stage's actions take.
std::vector<OrderCosts> order_costs(const Scenario& scenario, const Plan& plan,
                                    const Cluster& cluster) {
  if (scenario.uniform) {
    const UniformCosts& costs = *scenario.uniform;
    return std::vector<OrderCosts>(
        plan.stages(), {costs.forward_s, costs.input_s, costs.weight_s, scenario.p2p_s});
  }
  const Workload work = workload(scenario, plan, cluster);
  const int next = plan.tp * plan.cp * plan.dp;  // the same rank of the next stage
  const double transfer_s = plan.pp == 1
                                ? 0
                                : to_seconds(transfer_ns(cluster, work.pipeline_bytes, DeviceId{0},
                                                         static_cast<DeviceId>(next)));
  std::vector<OrderCosts> costs;
  for (const StageWork& stage : work.stages)
    costs.push_back({seconds(stage.forward, plan, cluster),
                     seconds(stage.backward_input, plan, cluster),
                     seconds(stage.backward_weight, plan, cluster), transfer_s});
  return costs;
}

void add_metrics(const Metrics& metrics, const Trace& trace, Outcome* outcome) {
  outcome->iteration_s = metrics.iteration_s;
  outcome->compute_s = metrics.compute_s;
  outcome->bubble_ratio = metrics.bubble_ratio;
  outcome->bubble_fraction = metrics.bubble_fraction;
  outcome->bubble_window_fraction = metrics.bubble_window_fraction;
  outcome->bubble_window_fraction_max = metrics.bubble_window_fraction_max;
  outcome->exposed_s = metrics.exposed_s;
  outcome->comm_s = metrics.comm_s;
  outcome->overlap_fraction = metrics.overlap_fraction;
  outcome->sent_bytes = metrics.sent_bytes;
  outcome->exposed_between_nodes_s = metrics.exposed_between_nodes_s;
  outcome->ranks_simulated = static_cast<std::int64_t>(trace.ranks.size());
  outcome->ops = static_cast<std::int64_t>(trace.events.size());
}

Status write_files(const Program& program, Trace* trace, const OutputFiles& files) {
  if (files.trace_csv.empty() && files.perfetto.empty() && files.svg.empty()) return Done{};
  trace->meta.insert(trace->meta.begin(),
                     {"program", fmt::format("{} {:016x}", program.name, hash(program))});
  // Those that may refuse first, so that they leave no other behind.
  if (!files.svg.empty()) RETURN_IF_ERROR(write_svg(program, *trace, files.svg));
  if (!files.perfetto.empty()) RETURN_IF_ERROR(write_perfetto(program, *trace, files.perfetto));
  if (!files.trace_csv.empty()) RETURN_IF_ERROR(write_trace_csv(program, *trace, files.trace_csv));
  return Done{};
}

std::int64_t ops_to_play(const Program& program, const SimOptions& options) {
  std::int64_t ops = 0;
  if (options.folded()) {
    for (const Body& body : program.bodies) ops += static_cast<std::int64_t>(body.ops.size());
  } else {
    for (const RankRow& rank : program.ranks)
      ops += static_cast<std::int64_t>(program.bodies[rank.body].ops.size());
  }
  return ops;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

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

}  // namespace

Result<Order> make_order(const Scenario& scenario) {
  if (scenario.order_file.empty()) {
    OrderSpec spec = scenario.order;
    spec.expert_overlap = scenario.expert_overlap && spec.name == "interleaved";
    if (made_for_costs(spec.name)) {
      ASSIGN_OR_RETURN(const Cluster cluster, make_cluster(scenario));
      spec.stage_costs =
          order_costs(scenario, plan_of(scenario, default_vpp(spec.name) == 2, 1), cluster);
    }
    auto order = make_order(spec);
    if (!order.ok())
      return placed(scenario, {"schedule.order", "schedule.group", "parallel.vpp", "parallel.pp"},
                    order.error());
    return order;
  }
  ASSIGN_OR_RETURN(Order order, read_pytorch(scenario.order_file));
  const Plan& plan = scenario.plan;
  if (order.pp() != plan.pp || order.stages != plan.stages() * order.chains ||
      order.microbatches * order.chains != plan.microbatches())
    return placed(scenario, {"schedule.order"},
                  Error{fmt::format(
                      "found {} ranks, {} stages and {} microbatches in {}, expected pp = {} "
                      "ranks, pp x vpp = {} stages{} and global_batch / (micro_batch x dp) = "
                      "{} microbatches",
                      order.pp(), order.stages, order.microbatches, scenario.order_file, plan.pp,
                      plan.stages(), order.chains > 1 ? " a chain" : "", plan.microbatches())});
  return order;
}

Result<Cluster> make_cluster(const Scenario& scenario) {
  const ClusterSpec spec = scenario.uniform ? uniform_cluster(scenario.p2p_s) : scenario.cluster;
  const int nodes = (scenario.gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
  auto cluster = Cluster::build(spec, nodes > 1 ? nodes * spec.gpus_per_node : scenario.gpus);
  if (cluster.ok()) return cluster;
  // "found KEY = ...", with the key's name in [cluster].
  std::istringstream words(cluster.error().message);
  std::string key;
  words >> key >> key;
  return placed(scenario,
                {"cluster." + key, "cluster.nics_per_node", "cluster.fabric", "cluster.gpus",
                 "cluster.preset", "parallel.pp"},
                cluster.error());
}

Result<Prepared> prepare(const Scenario& scenario) {
  const Plan& plan = scenario.plan;
  ASSIGN_OR_RETURN(Order order, make_order(scenario));
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(scenario));
  const Plan own = plan_of(scenario, order);
  Workload work = workload(scenario, own, cluster);
  const std::vector<StageWork> one = work.stages;
  for (int copy = 1; copy < order.chains; ++copy)
    work.stages.insert(work.stages.end(), one.begin(), one.end());
  auto program = lower(order, work, lower_options(scenario, order));
  if (!program.ok())
    return placed(scenario, {"overlap.p2p", "overlap.batch_p2p", "schedule.order", "parallel.pp"},
                  program.error());
  Prepared prepared{
      own, std::move(order), *std::move(program), std::move(cluster), in_order(scenario.gpus), {}};
  price(&prepared.program, prepared.cluster, prepared.placement);
  const auto crosses = [](const Communicator& c) {
    return c.scope == Scope::Tensor && c.between_nodes;
  };
  const int node = scenario.cluster.gpus_per_node;
  if (!scenario.uniform && std::ranges::any_of(prepared.program.communicators, crosses))
    prepared.warnings.push_back(fmt::format(
        "{}: parallel.tp = {} {} the {} GPUs of a node: tensor communication "
        "crosses nodes",
        scenario.name, plan.tp, plan.tp > node ? "is more than" : "does not divide", node));
  if (const Status status = check_durations(prepared.program); !status.ok())
    return placed(scenario, {"cluster.intra_GBps", "cluster.nic_Gbitps", "cluster.preset"},
                  status.error());
  return prepared;
}

Result<Outcome> simulate(const Scenario& scenario, Engine engine, const OutputFiles& files,
                         bool progress) {
  ASSIGN_OR_RETURN(Prepared prepared, prepare(scenario));
  SimOptions options{scenario.jitter, scenario.seed};
  Progress bar("ops", ops_to_play(prepared.program, options));
  if (progress) options.on_progress = [&bar](std::int64_t ops) { bar.advance(ops); };
  const Stopwatch stopwatch;
  auto played = engine == Engine::Ideal
                    ? ideal(prepared.program, options)
                    : simgrid(prepared.program, prepared.cluster, prepared.placement, options);
  const double wall_s = stopwatch.seconds();
  if (!played.ok()) return played.error();
  Trace& trace = *played;

  Outcome outcome;
  outcome.name = scenario.name;
  outcome.axes = scenario.axes;
  outcome.points = scenario.points;
  outcome.cluster = scenario.uniform ? "uniform" : scenario.cluster.name;
  outcome.engine = engine == Engine::Ideal ? "ideal" : "simgrid";
  outcome.gpus = scenario.gpus;
  const Plan& plan = scenario.plan;
  outcome.plan = Cut{plan.tp, plan.pp, plan.vpp, plan.cp, plan.ep, plan.dp, plan.microbatches()};
  outcome.engine_wall_s = wall_s;
  outcome.warnings = prepared.warnings;
  if (scenario.jitter > 0)
    outcome.warnings.push_back(
        fmt::format("{}: jitter: all {} ranks are simulated, none folded; seed {}", scenario.name,
                    scenario.gpus, scenario.seed));
  add_metrics(measure(prepared.program, trace), trace, &outcome);
  if (outcome.iteration_s == 0)
    return placed(scenario, {"costs.forward_s", "costs.backward_s"},
                  Error{"found an iteration that takes no time, expected costs above 0"});
  if (!scenario.uniform)
    outcome.training = training(scenario, prepared.plan, prepared.order, prepared.program, trace,
                                outcome.iteration_s);
  if (scenario.published.tflops_per_gpu > 0) {
    for (const std::string& point : scenario.points) {
      if (point == scenario.published.cluster)
        outcome.published_tflops_per_gpu = scenario.published.tflops_per_gpu;
    }
  }
  RETURN_IF_ERROR(write_files(prepared.program, &trace, files));
  if (scenario.least_bandwidth && !scenario.uniform) {
    outcome.looked_for_bandwidth = true;
    outcome.least_internode_Gbitps = least_internode_Gbitps(scenario, &prepared);
  }
  return outcome;
}

Result<Outcome> simulate(const Program& program, const OutputFiles& files) {
  const Stopwatch stopwatch;
  ASSIGN_OR_RETURN(Trace trace, ideal(program));
  Outcome outcome;
  outcome.engine_wall_s = stopwatch.seconds();
  outcome.name = program.name;
  outcome.cluster = "as priced";
  outcome.engine = "ideal";
  outcome.gpus = static_cast<int>(program.ranks.size());
  add_metrics(measure(program, trace), trace, &outcome);
  RETURN_IF_ERROR(write_files(program, &trace, files));
  return outcome;
}

std::vector<Result<Outcome>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                          int jobs, const OutputFiles& files, int files_of) {
  Progress progress("runs", static_cast<std::int64_t>(scenarios.size()));
  const std::vector<Result<std::string>> texts = fork_map(
      static_cast<int>(scenarios.size()), jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const Outcome outcome,
                         simulate(scenarios[i], engine, i == files_of ? files : OutputFiles{}));
        return to_json(outcome).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      },
      [&](int) { progress.advance(); });
  std::vector<Result<Outcome>> outcomes;
  for (const Result<std::string>& text : texts) {
    if (text.ok()) {
      outcomes.emplace_back(outcome_from_json(nlohmann::ordered_json::parse(*text)));
    } else {
      outcomes.emplace_back(text.error());
    }
  }
  add_savings(scenarios, &outcomes);
  return outcomes;
}

}  // namespace tandem
