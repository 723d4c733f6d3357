#include "scenarios/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fork_map.h"
#include "base/progress.h"
#include "scenarios/least_bandwidth.h"
#include "schedule/lower.h"
#include "schedule/order_text.h"
#include "schedule/validate.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

// The Error with the place where the first of the keys stands.
Error placed(const Scenario& scenario, const std::vector<std::string>& keys, const Error& error) {
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

Workload workload(const Scenario& scenario, const Order& order, const Cluster& cluster) {
  const Plan& plan = scenario.plan;
  const Model& model = scenario.model;
  if (scenario.uniform) return uniform_workload(*scenario.uniform, order.stages);
  std::vector<DeviceId> tensor_ranks = in_order(plan.tp);
  const Bytes block_bytes =
      static_cast<Bytes>(stored_bytes(plan)) * model.seq * plan.micro_batch * model.hidden;
  return make_workload(model, plan, CostModel{scenario.cluster.device, plan.precision},
                       collective_ns(cluster, CommKind::AllReduce, block_bytes, tensor_ranks));
}

LiveActivations live_activations(const Order& order) {
  LiveActivations live;
  const std::vector<int> rank_of = stage_to_rank(order);
  const std::vector<std::vector<int>> peaks = peak_live(order);
  live.ranks.resize(order.ranks.size());
  for (int stage = 0; stage < order.stages; ++stage) {
    auto& entries = live.ranks[rank_of[stage]];
    entries.push_back({static_cast<Stage>(stage), peaks[rank_of[stage]][entries.size()]});
  }
  return live;
}

Training training(const Scenario& scenario, const Order& order, double iteration_s) {
  const Plan& plan = scenario.plan;
  const DeviceSpec& device = scenario.cluster.device;
  const double per_gpu_s = iteration_s * scenario.gpus;
  const double peak = device.flops_per_s.at(plan.precision);
  const MemoryUse memory = peak_memory(scenario.model, plan, live_activations(order));
  Training t;
  t.tokens_per_s = static_cast<double>(plan.global_batch) * scenario.model.seq / iteration_s;
  t.model_tflops_per_gpu = model_flops(scenario.model, plan) / per_gpu_s * 1e-12;
  t.hardware_tflops_per_gpu = hardware_flops(scenario.model, plan) / per_gpu_s * 1e-12;
  t.mfu = t.model_tflops_per_gpu * 1e12 / peak;
  t.hfu = t.hardware_tflops_per_gpu * 1e12 / peak;
  t.weights = memory.weights;
  t.gradients = memory.gradients;
  t.optimizer = memory.optimizer;
  t.activations = memory.activations;
  t.total = memory.total();
  t.capacity = device.memory_bytes;
  t.fits = t.total <= t.capacity;
  return t;
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

}  // namespace

Result<Order> make_order(const Scenario& scenario) {
  if (scenario.order_file.empty()) {
    auto order = make_order(scenario.order);
    if (!order.ok())
      return placed(scenario, {"schedule.order", "schedule.group", "parallel.vpp", "parallel.pp"},
                    order.error());
    return order;
  }
  ASSIGN_OR_RETURN(Order order, read_pytorch(scenario.order_file));
  const Plan& plan = scenario.plan;
  if (order.chains > 1 && !scenario.uniform)
    return placed(scenario, {"schedule.order"},
                  Error{fmt::format("found two chains of stages in {}, expected one: only uniform "
                                    "costs play two",
                                    scenario.order_file)});
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
  const Workload work = workload(scenario, order, cluster);
  const bool overlap =
      scenario.overlap_p2p.value_or(overlaps_p2p_by_default(order) && !scenario.batch_p2p);
  auto program = lower(order, work, {plan.tp, plan.dp, overlap, scenario.batch_p2p});
  if (!program.ok())
    return placed(scenario, {"overlap.p2p", "overlap.batch_p2p", "schedule.order", "parallel.pp"},
                  program.error());
  Prepared prepared{
      std::move(order), *std::move(program), std::move(cluster), in_order(scenario.gpus), {}};
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
  outcome.plan = Cut{scenario.plan.tp, scenario.plan.pp, scenario.plan.vpp, scenario.plan.dp,
                     scenario.plan.microbatches()};
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
  if (!scenario.uniform) outcome.training = training(scenario, prepared.order, outcome.iteration_s);
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
  return outcomes;
}

}  // namespace tandem
