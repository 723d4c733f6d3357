#include "scenarios/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fork_map.h"
#include "base/progress.h"
#include "scenarios/config/limits.h"
#include "scenarios/run/doubts.h"
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
void add_table_warnings(const Scenario& scenario, Prepared* prepared) {
  const CostTable& table = *scenario.cost_table;
  Repriced repriced;
  for (const Kernel& kernel : prepared->program.kernels) {
    const auto price = kernel_price(table, kernel);
    if (price.ok()) repriced.interpolated += price->interpolated;
  }
  for (const std::string& line : lines_of(repriced, table))
    prepared->warnings.push_back(fmt::format("{}: {}", scenario.name, line));
  const std::string_view precision = table.meta_value("precision");
  if (!precision.empty() && precision != scenario.plan.precision)
    prepared->warnings.push_back(fmt::format("{}: {}: measured in {}, the run is in {}",
                                             scenario.name, table.path, precision,
                                             scenario.plan.precision));
}

// Where priced by the analytic model, which alone can tell what another size would take.
void add_size_warnings(const Scenario& scenario, Outcome* outcome) {
  if (scenario.uniform || scenario.cost_table) return;
  for (const WastefulSize& size :
       wasteful_sizes(scenario.model, scenario.plan, scenario.cost_model()))
    outcome->warnings.push_back(fmt::format("{}: {}", scenario.name, text_of(size)));
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
  if (!scenario.slower) return;
  if (scenario.slower->stage) slow_stage(program, *scenario.slower->stage, scenario.slower->factor);
  if (scenario.slower->kind) slow_kind(program, *scenario.slower->kind, scenario.slower->factor);
}

void add_stragglers(const Scenario& scenario, Prepared* prepared) {
  if (!scenario.stragglers.any()) return;
  const std::vector<double> factors =
      rank_factors(scenario.stragglers, scenario.seed, prepared->cluster, prepared->placement);
  prepared->folds = !slow_ranks(&prepared->program, factors);
  const auto slow = std::ranges::count_if(factors, [](double factor) { return factor != 1; });
  if (slow == 0 && scenario.stragglers.node_share == 0) return;  // stages
  prepared->warnings.push_back(fmt::format(
      "{}: stragglers: {} of {} ranks take {:g} times as long; {}seed {}", scenario.name, slow,
      factors.size(), scenario.stragglers.factor,
      prepared->folds ? ""
                      : fmt::format("all {} ranks are simulated, none folded; ", factors.size()),
      scenario.seed));
}

Result<SimOptions> sim_options(const Scenario& scenario, const Prepared& prepared, Engine engine) {
  SimOptions options{scenario.jitter, scenario.seed, scenario.fold && prepared.folds};
  if (scenario.slow_link.name.empty()) return options;
  if (engine == Engine::Ideal)
    return placed(
        scenario, {"variability.slow_link"},
        Error{"found variability.slow_link with the ideal engine, expected simgrid: ideal "
              "knows no time on links"});
  auto changes = link_changes(scenario.slow_link, prepared.cluster);
  if (!changes.ok()) return placed(scenario, {"variability.slow_link"}, changes.error());
  options.link_changes = *std::move(changes);
  return options;
}

Result<Trace> trace_of(const Prepared& prepared, Engine engine, const SimOptions& options) {
  if (engine == Engine::Ideal) return ideal(prepared.program, options);
  return simgrid(prepared.program, prepared.cluster, prepared.placement, options);
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
  ClusterSpec spec = scenario.has_cluster()
                         ? scenario.cluster
                         : uniform_cluster(scenario.p2p_s * scenario.software.pipeline_stretch);
  spec.nic_bytes_per_s *= 1 - scenario.background;
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

Result<Prepared> prepare(const Scenario& scenario,
                         const std::function<void(Prepared*)>& before_prices) {
  const Plan& plan = scenario.plan;
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(scenario));
  RETURN_IF_ERROR(check_ops(scenario, cluster));
  ASSIGN_OR_RETURN(Order order, make_order(scenario));
  const Plan own = plan_of(scenario, order);
  const Placement placement = placement_of(scenario, cluster);
  const Workload work = workload(scenario, order, cluster, placement);
  auto program = lower(order, work, lower_options(scenario, order));
  if (!program.ok())
    return placed(scenario, {"overlap.p2p", "overlap.batch_p2p", "schedule.order", "parallel.pp"},
                  program.error());
  Prepared prepared{own, std::move(order), *std::move(program), std::move(cluster), placement, {}};
  if (before_prices) before_prices(&prepared);
  prepared.program.comm_costs = comm_costs(scenario);
  slow_parts(scenario, &prepared.program);
  price(&prepared.program, prepared.cluster, prepared.placement);
  add_stragglers(scenario, &prepared);
  const auto crosses = [](const Communicator& c) {
    return c.scope == Scope::Tensor && c.between_nodes;
  };
  const int node = scenario.cluster.gpus_per_node;
  if (!scenario.uniform && std::ranges::any_of(prepared.program.communicators, crosses))
    prepared.warnings.push_back(fmt::format(
        "{}: {}: tensor communication crosses nodes", scenario.name,
        scenario.cyclic ? "cluster.placement = cyclic parts neighbouring ranks"
                        : fmt::format("parallel.tp = {} {} the {} GPUs of a node", plan.tp,
                                      plan.tp > node ? "is more than" : "does not divide", node)));
  for (const std::string& doubt : doubts(scenario))
    prepared.warnings.push_back(fmt::format("{}: {}", scenario.name, doubt));
  if (scenario.cost_table) add_table_warnings(scenario, &prepared);
  if (const Status status = check_durations(prepared.program); !status.ok())
    return placed(scenario, {"cluster.intra_GBps", "cluster.nic_Gbitps", "cluster.preset"},
                  status.error());
  return prepared;
}

Result<Outcome> play(const Scenario& scenario, const Prepared& prepared, Engine engine) {
  ASSIGN_OR_RETURN(const SimOptions options, sim_options(scenario, prepared, engine));
  ASSIGN_OR_RETURN(const Trace trace, trace_of(prepared, engine, options));
  Outcome outcome = outcome_of(scenario, prepared, trace);
  outcome.engine = engine == Engine::Ideal ? "ideal" : "simgrid";
  return outcome;
}

Result<Outcome> simulate(const Scenario& scenario, Engine engine, const OutputFiles& files,
                         bool progress, int jobs) {
  if (scenario.repeats > 1) return simulate_repeated(scenario, engine, files, progress, jobs);
  std::optional<Waiting> waiting;
  if (progress) waiting.emplace("making the program");
  ASSIGN_OR_RETURN(Prepared prepared, prepare(scenario));
  waiting.reset();
  ASSIGN_OR_RETURN(SimOptions options, sim_options(scenario, prepared, engine));
  Progress bar("ops", ops_to_play(prepared.program, options));
  if (progress) options.on_progress = [&bar](std::int64_t ops) { bar.advance(ops); };
  const Stopwatch stopwatch;
  auto played = trace_of(prepared, engine, options);
  const double wall_s = stopwatch.seconds();
  if (!played.ok()) return played.error();
  Trace& trace = *played;

  Outcome outcome = outcome_of(scenario, prepared, trace);
  outcome.engine = engine == Engine::Ideal ? "ideal" : "simgrid";
  outcome.engine_wall_s = wall_s;
  if (const Software& by = scenario.software; !scenario.cost_table && by.interval_high > 0)
    outcome.interval_s.emplace(outcome.iteration_s * by.interval_low,
                               outcome.iteration_s * by.interval_high);
  outcome.calibrated = scenario.calibrated;
  outcome.cost_model = scenario.cost_model_name;
  if (scenario.jitter > 0)
    outcome.warnings.push_back(
        fmt::format("{}: jitter: all {} ranks are simulated, none folded; seed {}", scenario.name,
                    scenario.gpus, scenario.seed));
  if (!options.link_changes.empty())
    outcome.warnings.push_back(fmt::format(
        "{}: slow links: all {} ranks are simulated, none folded", scenario.name, scenario.gpus));
  // So few take no time, folded or not.
  constexpr std::size_t kFewRanks = 256;
  const std::size_t played_ranks = trace.ranks.size(), ranks = prepared.program.ranks.size();
  if (options.folded() && played_ranks > prepared.order.ranks.size() && played_ranks > kFewRanks)
    outcome.warnings.push_back(fmt::format(
        "{}: equal ranks sit differently on the nodes: {} of {} ranks are simulated{}",
        scenario.name, played_ranks, ranks, played_ranks == ranks ? ", none folded" : ""));
  add_size_warnings(scenario, &outcome);
  if (outcome.iteration_s == 0)
    return placed(scenario, {"costs.forward_s", "costs.backward_s"},
                  Error{"found an iteration that takes no time, expected costs above 0"});
  outcome.detail = detail_of(scenario, prepared, trace, files.detail);
  if (scenario.cost_table) trace.meta.emplace_back("costs", outcome.costs);
  RETURN_IF_ERROR(write_files(prepared.program, &trace, files));
  if (scenario.least_bandwidth && scenario.has_cluster()) {
    outcome.looked_for_bandwidth = true;
    outcome.least_internode_Gbitps = least_internode_Gbitps(scenario, &prepared);
  }
  return outcome;
}

Result<Outcome> simulate(const Program& given, const OutputFiles& files, bool fold,
                         const PricedBy& priced_by) {
  Program program = given;
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::string costs, reprice(&program, priced_by, &warnings));
  RETURN_IF_ERROR(check_durations(program));
  const Stopwatch stopwatch;
  ASSIGN_OR_RETURN(Trace trace, ideal(program, {.fold = fold}));
  const double wall_s = stopwatch.seconds();
  Outcome outcome = outcome_of(program, trace);
  if (outcome.iteration_s == 0)
    return Error{fmt::format("{}: found an iteration that takes no time, expected ops that do",
                             program.name)};
  outcome.engine = "ideal";
  outcome.engine_wall_s = wall_s;
  outcome.costs = costs;
  outcome.warnings = std::move(warnings);
  outcome.detail = detail_of(program, trace, files.detail);
  if (!priced_by.costs.empty() || !priced_by.op_times.empty()) {
    trace.meta.insert(trace.meta.begin(), program_line(given));
    trace.meta.emplace_back("costs", costs);
  }
  RETURN_IF_ERROR(write_files(program, &trace, files));
  return outcome;
}

std::vector<Result<Outcome>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                          int jobs, const OutputFiles& files, int files_of) {
  Progress progress("runs", static_cast<std::int64_t>(scenarios.size()));
  const OutputFiles of_others{.detail = std::min(files.detail, Detail::Numbers)};
  const std::vector<Result<std::string>> texts = fork_map(
      static_cast<int>(scenarios.size()), jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const Outcome outcome,
                         simulate(scenarios[i], engine, i == files_of ? files : of_others));
        return to_json(outcome).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
               '\n' + outcome.detail;
      },
      [&](int) { progress.advance(); }, [&] { progress.advance(0); });
  std::vector<Result<Outcome>> outcomes;
  for (const Result<std::string>& text : texts) {
    if (text.ok()) {
      const std::size_t line = text->find('\n');
      outcomes.emplace_back(
          outcome_from_json(nlohmann::ordered_json::parse(text->substr(0, line))));
      outcomes.back()->detail = text->substr(line + 1);
    } else {
      outcomes.emplace_back(text.error());
    }
  }
  add_savings(scenarios, &outcomes);
  return outcomes;
}

}  // namespace tandem
