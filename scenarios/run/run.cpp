#include "scenarios/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/fork_map.h"
#include "base/progress.h"
#include "scenarios/config/limits.h"
#include "scenarios/run/doubts.h"
#include "scenarios/run/failed_links.h"
#include "scenarios/run/job.h"
#include "scenarios/run/least_bandwidth.h"
#include "scenarios/run/repeat.h"
#include "scenarios/run/savings.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/order_text.h"
#include "schedule/program/reprice.h"
#include "schedule/program/slowdown.h"
#include "schedule/program/validate.h"
#include "sim/engines.h"
#include "traces/op_times.h"
#include "traces/trace_files.h"
#include "workload/cost/quantization.h"

namespace tandem {
namespace {

// Uniform costs by themselves know no cluster: every transfer takes p2p_s, whatever it carries.
ClusterSpec uniform_cluster(double p2p_s) {
  ClusterSpec spec;
  spec.name = "uniform";
  spec.gpus_per_node = 1;
  spec.nics_per_node = 1;
  spec.intra_bytes_per_s = spec.nic_bytes_per_s = 1e15;
  spec.inter_latency_s = p2p_s;
  return spec;
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

// What the table cannot say of a run that it prices.
void add_table_warnings(const Scenario& scenario, CompiledJob* job) {
  const CostTable& table = *scenario.cost_table;
  Repriced repriced;
  for (const Kernel& kernel : job->program.kernels) {
    const auto price = kernel_price(table, kernel);
    if (price.ok()) repriced.interpolated += price->interpolated;
  }
  for (const std::string& line : lines_of(repriced, table))
    job->warnings.push_back(fmt::format("{}: {}", scenario.name, line));
  const std::string_view precision = table.meta_value("precision");
  if (!precision.empty() && precision != scenario.plan.precision)
    job->warnings.push_back(fmt::format("{}: {}: measured in {}, the run is in {}", scenario.name,
                                        table.path, precision, scenario.plan.precision));
}

// Where priced by the analytic model, which alone can tell what another size would take.
void add_size_warnings(const Scenario& scenario, RunResult* result) {
  if (scenario.uniform || scenario.cost_table) return;
  for (const WastefulSize& size :
       wasteful_sizes(scenario.model, scenario.plan, scenario.cost_model()))
    result->warnings.push_back(fmt::format("{}: {}", scenario.name, text_of(size)));
}

// Gives what priced it.
Result<std::string> reprice(Program* program, const PricedBy& priced_by,
                            std::vector<std::string>* warnings) {
  if (!priced_by.costs.empty()) {
    ASSIGN_OR_RETURN(const CostTable table, read_cost_table(priced_by.costs));
    ASSIGN_OR_RETURN(const Repriced repriced, reprice(program, table));
    *warnings = lines_of(repriced, table);
    return fmt::format("table {}", priced_by.costs);
  }
  if (priced_by.op_times.empty()) return std::string("as priced");
  ASSIGN_OR_RETURN(const TraceTable measured, read_trace_csv(priced_by.op_times));
  RETURN_IF_ERROR(reprice(program, measured));
  return fmt::format("op times of {}", priced_by.op_times);
}

// What the scenario makes slower, before prices and behind them.
void slow_parts(const Scenario& scenario, Program* program) {
  for (const int stage : scenario.stragglers.stages)
    slow_stage(program, stage, scenario.stragglers.factor);
  if (!scenario.perturbation) return;
  if (scenario.perturbation->stage)
    slow_stage(program, *scenario.perturbation->stage, scenario.perturbation->factor);
  if (scenario.perturbation->kind)
    slow_kind(program, *scenario.perturbation->kind, scenario.perturbation->factor);
}

void add_stragglers(const Scenario& scenario, CompiledJob* job) {
  if (!scenario.stragglers.any()) return;
  const std::vector<double> factors =
      rank_factors(scenario.stragglers, scenario.seed, job->cluster, job->placement);
  job->folds = !slow_ranks(&job->program, factors);
  const auto slow = std::ranges::count_if(factors, [](double factor) { return factor != 1; });
  if (slow == 0 && scenario.stragglers.node_share == 0) return;  // stages
  job->warnings.push_back(fmt::format(
      "{}: stragglers: {} of {} ranks take {:g} times as long; {}seed {}", scenario.name, slow,
      factors.size(), scenario.stragglers.factor,
      job->folds ? "" : fmt::format("all {} ranks are simulated, none folded; ", factors.size()),
      scenario.seed));
}

Result<SimOptions> sim_options(const Scenario& scenario, const CompiledJob& job, Engine engine) {
  SimOptions options{scenario.jitter, scenario.seed, scenario.fold && job.folds};
  if (scenario.slow_link.name.empty() || scenario.slow_link.fails_for_good()) return options;
  if (engine == Engine::Ideal)
    return scenario.placed(Error::of({"variability.slow_link"},
                                     "found variability.slow_link with the ideal engine, expected "
                                     "simgrid: ideal knows no time on links"));
  auto changes = link_changes(scenario.slow_link, job.cluster);
  if (!changes.ok()) return scenario.placed(changes.error());
  options.link_changes = *std::move(changes);
  return options;
}

Result<Trace> trace_of(const CompiledJob& job, Engine engine, const SimOptions& options) {
  if (engine == Engine::Ideal) return ideal(job.program, options);
  return simgrid(job.program, job.cluster, job.placement, options);
}

}  // namespace

std::string name(Engine engine) { return engine == Engine::Ideal ? "ideal" : "simgrid"; }

Result<Order> make_order(const Scenario& scenario) {
  if (scenario.order_file.empty()) {
    OrderSpec spec = scenario.order;
    const OrderTraits& traits = traits_of(spec);
    spec.expert_overlap = scenario.expert_overlap && traits.expert_warm_up;
    if (traits.made_for_costs()) {
      ASSIGN_OR_RETURN(const Cluster cluster, make_cluster(scenario));
      spec.stage_costs = order_costs(scenario, plan_of_chain(scenario), cluster);
    }
    auto order = make_order(spec);
    if (!order.ok())
      return scenario.placed(order.error(),
                             {"schedule.order", "schedule.group", "parallel.vpp", "parallel.pp"});
    return order;
  }
  ASSIGN_OR_RETURN(Order order, read_pytorch(scenario.order_file));
  const Plan& plan = scenario.plan;
  if (order.pp() != plan.pp || order.stages != plan.stages() * order.chains ||
      order.microbatches * order.chains != plan.microbatches())
    return scenario.placed(Error::of(
        {"schedule.order"},
        fmt::format("found {} ranks, {} stages and {} microbatches in {}, expected pp = {} "
                    "ranks, pp x vpp = {} stages{} and global_batch / (micro_batch x dp) = "
                    "{} microbatches",
                    order.pp(), order.stages, order.microbatches, scenario.order_file, plan.pp,
                    plan.stages(), order.chains > 1 ? " a chain" : "", plan.microbatches())));
  return order;
}

Result<Cluster> make_cluster(const Scenario& scenario) {
  ClusterSpec spec = scenario.has_cluster()
                         ? scenario.cluster
                         : uniform_cluster(scenario.p2p_s * scenario.profile.pipeline_stretch);
  (spec.cables ? spec.inter_efficiency : spec.nic_bytes_per_s) *= 1 - scenario.background;
  const int nodes = (scenario.gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
  auto cluster = Cluster::build(spec, nodes > 1 ? nodes * spec.gpus_per_node : scenario.gpus);
  if (cluster.ok() && scenario.slow_link.fails_for_good()) {
    const Status status = take_out_failed_links(scenario, &*cluster);
    if (!status.ok()) return scenario.placed(status.error(), {"variability.slow_link_rate"});
  }
  if (cluster.ok()) return cluster;
  return scenario.placed(cluster.error(),
                         {"cluster.nics_per_node", "cluster.fabric", "cluster.links_file",
                          "cluster.gpus", "cluster.preset", "parallel.pp"});
}

Result<CompiledJob> compile(const Scenario& scenario,
                            const std::function<void(CompiledJob*)>& before_prices) {
  const Plan& plan = scenario.plan;
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(scenario));
  RETURN_IF_ERROR(check_ops(scenario, cluster));
  ASSIGN_OR_RETURN(Order order, make_order(scenario));
  const OrderedPlan own = plan_of(scenario, order);
  const Placement placement = placement_of(scenario, cluster);
  const Workload work = workload(scenario, order, cluster, placement);
  auto program = lower(order, work, lower_options(scenario, order));
  if (!program.ok())
    return scenario.placed(program.error(),
                           {"overlap.p2p", "overlap.batch_p2p", "schedule.order", "parallel.pp"});
  CompiledJob job{own, std::move(order), *std::move(program), std::move(cluster), placement, {}};
  if (before_prices) before_prices(&job);
  job.program.comm_costs = comm_costs(scenario);
  slow_parts(scenario, &job.program);
  price(&job.program, job.cluster, job.placement);
  add_stragglers(scenario, &job);
  const auto crosses = [](const Communicator& c) {
    return c.group_kind == GroupKind::Tensor && c.between_nodes;
  };
  const int node = scenario.cluster.gpus_per_node;
  if (!scenario.uniform && std::ranges::any_of(job.program.communicators, crosses))
    job.warnings.push_back(fmt::format(
        "{}: {}: tensor communication crosses nodes", scenario.name,
        scenario.cyclic ? "cluster.placement = cyclic parts neighbouring ranks"
                        : fmt::format("parallel.tp = {} {} the {} GPUs of a node", plan.tp,
                                      plan.tp > node ? "is more than" : "does not divide", node)));
  if (scenario.slow_link.fails_for_good()) {
    ASSIGN_OR_RETURN(const Cluster with_all, make_cluster(with_all_links(scenario)));
    job.warnings.push_back(rerouted(scenario, job.program, job.placement, job.cluster, with_all));
  }
  for (const std::string& doubt : doubts(scenario))
    job.warnings.push_back(fmt::format("{}: {}", scenario.name, doubt));
  if (scenario.cost_table) add_table_warnings(scenario, &job);
  if (const Status status = check_durations(job.program); !status.ok())
    return scenario.placed(status.error(),
                           {"cluster.intra_GBps", "cluster.nic_Gbitps", "cluster.preset"});
  return job;
}

Result<RunResult> play(const Scenario& scenario, const CompiledJob& job, Engine engine) {
  ASSIGN_OR_RETURN(const SimOptions options, sim_options(scenario, job, engine));
  ASSIGN_OR_RETURN(const Trace trace, trace_of(job, engine, options));
  RunResult result = result_of(scenario, job, trace);
  result.engine = name(engine);
  return result;
}

namespace {

// What the iteration takes with all links, in a process of its own: SimGrid plays one run in each.
Result<std::optional<double>> before_failure_s(const Scenario& scenario, Engine engine) {
  if (!scenario.slow_link.fails_for_good()) return std::optional<double>();
  ASSIGN_OR_RETURN(const std::vector<double> seconds,
                   iterations_s({with_all_links(scenario)}, engine, false, 1));
  return std::optional(seconds.front());
}

}  // namespace

Result<RunResult> simulate(const Scenario& scenario, Engine engine, const OutputFiles& files,
                           bool progress, int jobs) {
  if (scenario.repeats > 1) return simulate_repeated(scenario, engine, files, progress, jobs);
  std::optional<Waiting> waiting;
  if (progress) waiting.emplace("making the program");
  ASSIGN_OR_RETURN(CompiledJob job, compile(scenario));
  waiting.reset();
  ASSIGN_OR_RETURN(const std::optional<double> before_s, before_failure_s(scenario, engine));
  ASSIGN_OR_RETURN(SimOptions options, sim_options(scenario, job, engine));
  Progress bar("ops", ops_to_play(job.program, options));
  if (progress) options.on_progress = [&bar](std::int64_t ops) { bar.advance(ops); };
  const Stopwatch stopwatch;
  auto played = trace_of(job, engine, options);
  const double wall_s = stopwatch.seconds();
  if (!played.ok()) return played.error();
  Trace& trace = *played;

  RunResult result = result_of(scenario, job, trace);
  result.engine = name(engine);
  result.engine_wall_s = wall_s;
  if (const FrameworkProfile& by = scenario.profile; !scenario.cost_table && by.interval_high > 0)
    result.interval_s.emplace(result.iteration_s * by.interval_low,
                              result.iteration_s * by.interval_high);
  result.calibrated = scenario.calibrated;
  result.cost_model = scenario.cost_model_name;
  if (scenario.jitter > 0)
    result.warnings.push_back(
        fmt::format("{}: jitter: all {} ranks are simulated, none folded; seed {}", scenario.name,
                    scenario.gpus, scenario.seed));
  if (!options.link_changes.empty())
    result.warnings.push_back(fmt::format("{}: slow links: all {} ranks are simulated, none folded",
                                          scenario.name, scenario.gpus));
  // So few take no time, folded or not.
  constexpr std::size_t kFewRanks = 256;
  const std::size_t played_ranks = trace.ranks.size(), ranks = job.program.ranks.size();
  if (options.folded() && played_ranks > job.order.ranks.size() && played_ranks > kFewRanks)
    result.warnings.push_back(fmt::format(
        "{}: equal ranks sit differently on the nodes: {} of {} ranks are simulated{}",
        scenario.name, played_ranks, ranks, played_ranks == ranks ? ", none folded" : ""));
  add_size_warnings(scenario, &result);
  if (result.iteration_s == 0)
    return scenario.placed(
        Error::of({"costs.forward_s", "costs.backward_s"},
                  "found an iteration that takes no time, expected costs above 0"));
  if (before_s)
    result.warnings.push_back(fmt::format(
        "{}: {} has failed: the iteration takes {:.4g} s, {:.4g} s with all links: {:+.2f} %",
        scenario.name, scenario.slow_link.name, result.iteration_s, *before_s,
        100 * (result.iteration_s / *before_s - 1)));
  result.detail = detail_of(scenario, job, trace, files.detail);
  if (scenario.cost_table) trace.meta.emplace_back("costs", result.costs);
  RETURN_IF_ERROR(write_files(job.program, &trace, files));
  if (scenario.least_bandwidth && scenario.has_cluster()) {
    result.looked_for_bandwidth = true;
    result.least_internode_Gbitps = least_internode_Gbitps(scenario, &job);
  }
  return result;
}

Result<RunResult> simulate(const Program& given, const OutputFiles& files, bool fold,
                           const PricedBy& priced_by) {
  Program program = given;
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::string costs, reprice(&program, priced_by, &warnings));
  RETURN_IF_ERROR(check_durations(program));
  const Stopwatch stopwatch;
  ASSIGN_OR_RETURN(Trace trace, ideal(program, {.fold = fold}));
  const double wall_s = stopwatch.seconds();
  RunResult result = result_of(program, trace);
  if (result.iteration_s == 0)
    return Error{fmt::format("{}: found an iteration that takes no time, expected ops that do",
                             program.name)};
  result.engine = name(Engine::Ideal);
  result.engine_wall_s = wall_s;
  result.costs = costs;
  result.warnings = std::move(warnings);
  result.detail = detail_of(program, trace, files.detail);
  if (!priced_by.costs.empty() || !priced_by.op_times.empty()) {
    trace.meta.insert(trace.meta.begin(), program_line(given));
    trace.meta.emplace_back("costs", costs);
  }
  RETURN_IF_ERROR(write_files(program, &trace, files));
  return result;
}

std::vector<Result<RunResult>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                            int jobs, const OutputFiles& files, int files_of) {
  Progress progress("runs", static_cast<std::int64_t>(scenarios.size()));
  const OutputFiles of_others{.detail = std::min(files.detail, Detail::Numbers)};
  const std::vector<Result<std::string>> texts = fork_map(
      static_cast<int>(scenarios.size()), jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const RunResult result,
                         simulate(scenarios[i], engine, i == files_of ? files : of_others));
        return to_json(result).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
               '\n' + result.detail;
      },
      [&](int) { progress.advance(); }, [&] { progress.advance(0); });
  std::vector<Result<RunResult>> results;
  for (const Result<std::string>& text : texts) {
    if (text.ok()) {
      const std::size_t line = text->find('\n');
      results.emplace_back(
          run_result_from_json(nlohmann::ordered_json::parse(text->substr(0, line))));
      results.back()->detail = text->substr(line + 1);
    } else {
      results.emplace_back(text.error());
    }
  }
  add_savings(scenarios, &results);
  return results;
}

}  // namespace tandem
