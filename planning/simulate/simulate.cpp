// Turns a Scenario into a RunResult: choose() finds an order or layout that is "auto",
// shortest_play() compiles and plays it, measured_result() measures. Files, warnings and answers to
// further questions follow. simulate_all() does this for many scenarios, each in a forked process.
#include "planning/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "job/failed_links.h"
#include "job/iteration_bound.h"
#include "planning/choose/resolve.h"
#include "planning/play/play_job.h"
#include "planning/simulate/repeat.h"
#include "planning/what_if/least_bandwidth.h"
#include "planning/what_if/routing_cost.h"
#include "planning/what_if/savings.h"
#include "schedule/program/reprice.h"
#include "schedule/program/validate.h"
#include "traces/op_times.h"
#include "traces/profile/profile_op_times.h"
#include "traces/profile/read_profile.h"
#include "traces/trace_files.h"
#include "workload/model/quantization.h"

namespace tandem {
namespace {

// Returns the iteration's seconds without the failed link, or nothing if none fails for good. It is
// played in a process of its own, because SimGrid plays only one run in each.
Result<std::optional<double>> before_failure_s(const Scenario& scenario, Engine engine) {
  if (!scenario.variability.slow_link.fails_for_good()) return std::optional<double>();
  ASSIGN_OR_RETURN(
      const std::vector<double> seconds,
      iterations_s({with_all_links(scenario)}, engine, /*progress=*/false, /*jobs=*/1));
  return std::optional(seconds.front());
}

// Adds how far the cost model can be trusted: whether it was measured, its interval, and the best
// MFU of measured runs.
Status add_confidence(const Scenario& scenario, RunResult* result) {
  const CostSettings& costs = scenario.costs;
  result->calibrated = costs.calibrated;
  result->cost_model = costs.model_name;
  const auto& [low, high] = costs.interval;
  if (high > 0) result->interval_s.emplace(result->iteration_s * low, result->iteration_s * high);
  if (!result->training) return Done{};
  ASSIGN_OR_RETURN(result->best_published_mfu,
                   best_published_mfu(scenario.cluster.spec.device.name,
                                      scenario.job.plan.precision, result->training->causal_flops));
  return Done{};
}

// Explains why ranks were not folded. Folded in full, one rank stands for each pipeline rank
// (order.ranks has an entry for each).
void add_unfolded_warnings(const Scenario& scenario, const CompiledJob& job,
                           const SimOptions& options, RunResult* result) {
  const auto warn = [&](const std::string& line) {
    result->warnings.push_back(fmt::format("{}: {}", scenario.name, line));
  };
  if (options.jitter > 0)
    warn(fmt::format("jitter: all {} ranks are simulated, none folded; seed {}",
                     scenario.cluster.gpus, options.seed));
  if (!options.link_changes.empty())
    warn(fmt::format("slow links: all {} ranks are simulated, none folded", scenario.cluster.gpus));
  // So few ranks take no time, folded or not.
  constexpr std::size_t kFewRanks = 256;
  const auto played = static_cast<std::size_t>(result->ranks_simulated);
  const std::size_t ranks = job.program.ranks.size();
  if (options.folded() && played > job.order.ranks.size() && played > kFewRanks)
    warn(fmt::format("equal ranks sit differently on the nodes: {} of {} ranks are simulated{}",
                     played, ranks, played == ranks ? ", none folded" : ""));
}

void add_failure_warning(const Scenario& scenario, double before_s, RunResult* result) {
  result->warnings.push_back(fmt::format(
      "{}: {} has failed: the iteration takes {:.4g} s, {:.4g} s with all links: {:+.2f} %",
      scenario.name, scenario.variability.slow_link.name, result->iteration_s, before_s,
      100 * (result->iteration_s / before_s - 1)));
}

// Warns of a link that becomes slow only after the iteration.
void add_late_link_warning(const Scenario& scenario, RunResult* result) {
  const SlowLink& slow = scenario.variability.slow_link;
  if (slow.name.empty() || slow.from_s < result->iteration_s) return;
  result->warnings.push_back(fmt::format(
      "{}: {}: variability.slow_link_from_s = {:g} has no effect: the iteration takes {:.4g} s",
      scenario.name, scenario.place_of({"variability.slow_link_from_s"}), slow.from_s,
      result->iteration_s));
}

// Warns of sizes that waste time. Only the analytic model can tell how long another size would
// take.
void add_size_warnings(const Scenario& scenario, RunResult* result) {
  if (scenario.costs.uniform || scenario.costs.table) return;
  for (const WastefulSize& size :
       wasteful_sizes(scenario.job.model, scenario.job.plan, scenario.cost_model()))
    result->warnings.push_back(fmt::format("{}: {}", scenario.name, wasteful_size_text(size)));
}

// Replaces the program's prices and returns their source in words.
Result<std::string> reprice(Program* program, const PricedBy& priced_by,
                            std::vector<std::string>* warnings) {
  if (!priced_by.costs.empty()) {
    ASSIGN_OR_RETURN(const CostTable table, read_cost_table(priced_by.costs));
    ASSIGN_OR_RETURN(const Repriced repriced, reprice(program, table));
    *warnings = lines_of(repriced, table);
    return fmt::format("table {}", priced_by.costs);
  }
  if (priced_by.op_times.empty()) return std::string("as priced");
  if (may_be_profile(priced_by.op_times)) {
    ASSIGN_OR_RETURN(const Profile profile, read_profile({priced_by.op_times}));
    ASSIGN_OR_RETURN(const MeasuredOps measured, reprice_by_profile(program, profile));
    *warnings = measured.warnings(priced_by.op_times);
  } else {
    ASSIGN_OR_RETURN(const TraceTable measured, read_trace_csv(priced_by.op_times));
    RETURN_IF_ERROR(reprice_by_trace(program, measured));
  }
  return fmt::format("op times of {}", priced_by.op_times);
}

// Calls `run` for each run in a process of its own. Each process sends the result as a line of
// JSON, and behind it the detail that pages draw.
std::vector<Result<RunResult>> runs_in_own_processes(
    int count, int jobs, const std::function<Result<RunResult>(int)>& run, const OnRuns& on_runs) {
  Progress progress("runs", count);
  int done = 0;
  const auto report = [&](int ended) {
    done += ended;
    progress.advance(ended);
    if (on_runs) on_runs(done);
  };
  const std::vector<Result<std::string>> texts = fork_map(
      count, jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const RunResult result, run(i));
        return json_line(to_json(result)) + '\n' + result.detail;
      },
      [&](int) { report(1); }, [&] { report(0); });
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
  return results;
}

// Compiles and plays the scenario. If events are not needed, the ideal engine may play only a few
// microbatches and extrapolate.
Result<MeasuredJob> shortest_play(const Scenario& scenario, Engine engine, bool events,
                                  bool progress, int jobs) {
  std::optional<Waiting> waiting;
  if (progress) waiting.emplace("making the program");
  if (engine == Engine::Ideal && !events) {
    if (auto played = play_steady(scenario)) return *std::move(played);
  }
  ASSIGN_OR_RETURN(CompiledJob job, compile(scenario));
  waiting.reset();
  return play_job(scenario, std::move(job), engine, events, jobs, progress);
}

// Chooses the order and the layout if the scenario leaves them open.
Result<Scenario> choose(const Scenario& scenario, bool progress) {
  std::optional<Waiting> waiting;
  if (progress && scenario.job.is_open()) waiting.emplace("looking for an order or a layout");
  return resolved(scenario);
}

// Measures the played job. Error: it takes no time.
Result<RunResult> measured_result(const Scenario& scenario, Engine engine,
                                  const MeasuredJob& played) {
  const CompiledJob& job = played.job;
  RunResult result = result_of(scenario, job, played.trace, played.metrics, played.ops);
  if (result.iteration_s == 0)
    return scenario.placed(
        Error::of({"costs.forward_s", "costs.backward_s"},
                  "found an iteration that takes no time, expected costs above 0"));
  result.engine = engine_name(engine);
  result.engine_wall_s = played.wall_s;
  RETURN_IF_ERROR(add_confidence(scenario, &result));
  add_unfolded_warnings(scenario, job, played.options, &result);
  add_late_link_warning(scenario, &result);
  add_size_warnings(scenario, &result);
  result.lower_bound = iteration_bound(scenario, job, /*links_are_shared=*/engine != Engine::Ideal);
  return result;
}

// Writes the run's files, and the part of its result that pages draw.
Status write_outputs(const Scenario& scenario, const OutputFiles& files, MeasuredJob* played,
                     RunResult* result) {
  const Program& program = played->job.program;
  result->detail =
      detail_of(scenario, played->job, played->trace, files.detail, files.strip_columns);
  if (scenario.costs.table) played->trace.meta.emplace_back("costs", result->costs);
  return write_files(program, &played->trace, files, &result->warnings);
}

// Finds the least bandwidth between nodes at which communication costs little. The search begins
// with a play on the ideal engine without jitter: `played`, or else a new one.
Status add_least_bandwidth(const Scenario& scenario, Engine engine, MeasuredJob played,
                           RunResult* result) {
  if (!scenario.report.least_bandwidth || !scenario.costs.need_cluster()) return Done{};
  if (engine != Engine::Ideal || played.options.jitter > 0) {
    ASSIGN_OR_RETURN(played, play_ideal(scenario));
  }
  result->looked_for_bandwidth = true;
  result->least_internode_Gbitps = least_internode_Gbitps(scenario, std::move(played));
  return Done{};
}

}  // namespace

Result<RunResult> simulate(const Scenario& given, Engine engine, const OutputFiles& files,
                           bool progress, int jobs) {
  ASSIGN_OR_RETURN(const Scenario scenario, choose(given, progress));
  if (scenario.variability.repeats > 1)
    return simulate_repeated(scenario, engine, files, progress, jobs);
  ASSIGN_OR_RETURN(const std::optional<double> before_s, before_failure_s(scenario, engine));
  ASSIGN_OR_RETURN(MeasuredJob played,
                   shortest_play(scenario, engine, files.need_events(), progress, jobs));
  ASSIGN_OR_RETURN(RunResult result, measured_result(scenario, engine, played));
  if (before_s) add_failure_warning(scenario, *before_s, &result);
  ASSIGN_OR_RETURN(result.routing, routing_cost(scenario));
  RETURN_IF_ERROR(write_outputs(scenario, files, &played, &result));
  RETURN_IF_ERROR(add_least_bandwidth(scenario, engine, std::move(played), &result));
  return result;
}

Result<RunResult> simulate_program(const Program& given, const OutputFiles& files, bool fold,
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
  result.engine = engine_name(Engine::Ideal);
  result.engine_wall_s = wall_s;
  result.costs = costs;
  result.warnings = std::move(warnings);
  result.detail = detail_of(program, trace, files.detail, files.strip_columns);
  if (!priced_by.costs.empty() || !priced_by.op_times.empty()) {
    trace.meta.insert(trace.meta.begin(), program_line(given));
    trace.meta.emplace_back("costs", costs);
  }
  RETURN_IF_ERROR(write_files(program, &trace, files, &result.warnings));
  return result;
}

std::vector<Result<RunResult>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                            int jobs, const OutputFiles& files, int files_of,
                                            const OnRuns& on_runs) {
  const int count = static_cast<int>(scenarios.size());
  const OutputFiles no_files{.detail = files.detail};
  if (count > 1) open_ahead(engine);  // loads SimGrid once, before the forks
  auto results = runs_in_own_processes(
      count, jobs,
      [&](int i) {
        return simulate(scenarios[i], engine, i == files_of ? files : no_files, /*progress=*/false,
                        count == 1 ? jobs : 1);
      },
      on_runs);
  add_savings(scenarios, &results);
  return results;
}

Result<RunResult> run_in_own_process(const std::function<Result<RunResult>()>& run,
                                     const OnRuns& on_runs) {
  return runs_in_own_processes(
             1, 1, [&](int) { return run(); }, on_runs)
      .front();
}

}  // namespace tandem
