// The work behind each function of the Python package: reads the parameters as the command line
// does, calls planning/, and returns JSON. Knows nothing of Python's objects (module.cpp does).
#include "python/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_text.h"
#include "base/parallel/parallel.h"
#include "planning/choose/resolve.h"
#include "planning/simulate/simulate.h"
#include "planning/size/size.h"
#include "planning/sweep/sweep.h"
#include "planning/tune/frameworks.h"
#include "planning/tune/own_plan.h"
#include "planning/tune/tune.h"
#include "planning/what_if/memory_fixes.h"
#include "report/page/html_page.h"
#include "report/page/runs_page.h"
#include "schedule/order/order_text.h"
#include "schedule/order/primus_table.h"
#include "schedule/program/program_text.h"
#include "traces/profile/read_profile.h"
#include "traces/trace_files.h"
#include "validation/compare/compare.h"
#include "validation/compare/compare_files.h"
#include "validation/compare/suite.h"
#include "validation/explain/explain_files.h"
#include "validation/published/measured_log.h"

namespace tandem {
namespace {

constexpr const char* kOnly = "only=...";  // how a user chooses a run, for an Error

int jobs_of(const CallParameters& call) {
  return call.jobs > 0 ? call.jobs
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Returns the engine that the caller chose, or else `usual`.
Result<Engine> engine_of(const CallParameters& call, Engine usual) {
  if (call.engine.empty()) return usual;
  for (const Engine engine : {Engine::Ideal, Engine::SimGrid}) {
    if (engine_name(engine) == call.engine) return engine;
  }
  return Error{fmt::format("engine: found '{}', expected ideal or simgrid", call.engine)};
}

// Returns the engine that the caller chose, or simgrid. Error: it is not on this machine.
Result<Engine> available_engine(const CallParameters& call) {
  ASSIGN_OR_RETURN(const Engine engine, engine_of(call, Engine::SimGrid));
  if (engine == Engine::SimGrid) RETURN_IF_ERROR(simgrid_available());
  return engine;
}

Result<ScenarioFile> file_of(const CallParameters& call) {
  if (call.text) return parse_scenario(*call.text, call.path, /*is_file=*/false);
  return read_scenario_file(call.path);
}

// Says whether the path is a CSV file: a Program, or the actions of an order.
bool is_csv(const CallParameters& call) { return !call.text && call.path.ends_with(".csv"); }

Result<std::vector<Scenario>> scenarios_of(const CallParameters& call) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(call.sets));
  ASSIGN_OR_RETURN(const ScenarioFile file, file_of(call));
  return load_scenarios(file, sets, call.only);
}

Result<Scenario> scenario_of(const CallParameters& call) {
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, scenarios_of(call));
  return only_run(scenarios, call.path, kOnly);
}

Result<RunToTune> run_to_tune_of(const CallParameters& call) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(call.sets));
  ASSIGN_OR_RETURN(const ScenarioFile file, file_of(call));
  return run_to_tune(file, sets, call.only, kOnly);
}

// Returns the only run, with order and layout chosen where they were open.
Result<Scenario> resolved_scenario_of(const CallParameters& call) {
  ASSIGN_OR_RETURN(const Scenario given, scenario_of(call));
  return resolved(given);
}

OnRuns on_runs_of(const OnDone& on_done, int total) {
  return [&on_done, total](int done) { on_done(done, total); };
}

// Refuses parameters that choose among a scenario's settings and runs. `what`: "a Program".
Status check_no_choices(const CallParameters& call, const char* what) {
  if (call.sets.empty() && call.only.empty()) return Done{};
  return Error::at(call.path,
                   fmt::format("found {} with set or only, expected neither: they choose "
                               "what a scenario says",
                               what));
}

// Refuses parameters that have no meaning for a Program.
Status check_program(const CallParameters& call) {
  ASSIGN_OR_RETURN(const Engine engine, engine_of(call, Engine::Ideal));
  if (engine != Engine::Ideal)
    return Error::at(call.path,
                     "found a Program with engine='simgrid', expected 'ideal': a Program has no "
                     "cluster");
  return check_no_choices(call, "a Program");
}

// Simulates the runs, and tries changes of the plans that do not fit.
std::vector<Result<RunResult>> simulated(const CallParameters& call,
                                         const std::vector<Scenario>& scenarios, Engine engine,
                                         const OutputFiles& files, const OnDone& on_done) {
  const OnRuns on_runs = on_runs_of(on_done, static_cast<int>(scenarios.size()));
  auto results = simulate_all(scenarios, engine, jobs_of(call), files, /*files_of=*/0, on_runs);
  add_memory_fixes(scenarios, jobs_of(call), &results);
  return results;
}

// Simulates a Program or a scenario's run. `unfolded`: every rank is simulated, instead of one for
// all that do the same.
Result<RunResult> played(const CallParameters& call, bool unfolded, const OutputFiles& files,
                         const OnDone& on_done) {
  if (is_csv(call)) {
    RETURN_IF_ERROR(check_program(call));
    ASSIGN_OR_RETURN(const Program program, read_program(call.path));
    return run_in_own_process([&] { return simulate_program(program, files, !unfolded); },
                              on_runs_of(on_done, 1));
  }
  ASSIGN_OR_RETURN(Scenario scenario, scenario_of(call));
  ASSIGN_OR_RETURN(const Engine engine, available_engine(call));
  scenario.fold = !unfolded;
  return simulated(call, {scenario}, engine, files, on_done).front();
}

// Makes the order that the request names.
Result<Order> named_order(const OrderRequest& request, const OrderCosts& costs) {
  OrderSpec spec{.name = request.name,
                 .pp = request.pp,
                 .microbatches = request.microbatches,
                 .group = request.group,
                 .costs = costs,
                 .memory_limit = request.memory_limit,
                 .expert_overlap = request.expert_overlap};
  const OrderTraits& traits = traits_of(spec);
  const bool is_known = traits.make != nullptr;  // make_order() refuses an unknown name
  if (request.group > 0 && is_known && !traits.groups)
    return Error{fmt::format(
        "group: found {} with order {}, expected {}: no other one goes in groups", request.group,
        request.name, order_list([](const OrderTraits& order) { return order.groups; }))};
  spec.vpp = request.vpp > 0 ? request.vpp : traits.default_vpp();
  return make_order(spec);
}

Result<Order> scenarios_order(const CallParameters& call) {
  ASSIGN_OR_RETURN(const Scenario scenario, resolved_scenario_of(call));
  ASSIGN_OR_RETURN(const OrderedJob job, order_job(scenario));
  return job.order;
}

Result<Order> order_of(const OrderRequest& request, const OrderCosts& costs) {
  if (request.rows) {
    auto order = order_in_rows(*request.rows);
    if (!order.ok()) return Error::at("--order", order.error().message);
    return order;
  }
  if (!request.file.empty()) return read_order_file(request.file);
  if (is_csv(request.call)) {
    RETURN_IF_ERROR(check_no_choices(request.call, "an order"));
    return read_order_file(request.call.path);
  }
  return request.name.empty() ? scenarios_order(request.call) : named_order(request, costs);
}

// Does the work in a process of its own, which Ctrl-C ends.
Result<std::string> in_own_process(const std::function<Result<std::string>()>& work,
                                   Interrupt* interrupt) {
  const auto on_wait = [interrupt] { interrupt->check(); };
  return fork_map(/*count=*/1, /*jobs=*/1, [&](int) { return work(); }, [](int) {}, on_wait)
      .front();
}

// Refuses parameters that have no effect on files of this kind.
Status check_compared(const CallParameters& call, const std::string& measured, ComparedKind kind,
                      const std::string& passes, std::optional<int> worst) {
  struct Parameter {
    const char* name;
    bool given, has_effect;
    const char* needs;
  };
  const bool of_scenario = kind == ComparedKind::Scenario, traces = kind == ComparedKind::TwoTraces;
  for (const auto& [name, given, has_effect, needs] : std::initializer_list<Parameter>{
           {"set", !call.sets.empty(), of_scenario, "a scenario and a profile"},
           {"only", !call.only.empty(), of_scenario, "a scenario and a profile"},
           {"engine", !call.engine.empty(), of_scenario, "a scenario and a profile"},
           {"only_passes", !passes.empty(), !traces, "a profile"},
           {"worst", worst.has_value(), traces, "two traces"}}) {
    if (given && !has_effect)
      return Error::at(measured, fmt::format("found {}, expected it with {} only", name, needs));
  }
  return Done{};
}

// Returns what is compared, which the paths tell. A scenario that is given as text has no path, and
// can be compared with a profile only.
Result<ComparedKind> kind_of(const CallParameters& call, const std::string& measured) {
  const ComparedKind kind = compared_kind(call.path, measured);
  if (!call.text) return kind;
  if (kind == ComparedKind::TwoTraces)
    return Error::at(measured, "found no profile, expected one beside a scenario");
  return ComparedKind::Scenario;
}

Result<std::string> compared(const CallParameters& call, const std::string& measured,
                             const std::string& passes, std::optional<int> worst) {
  ASSIGN_OR_RETURN(const ComparedKind kind, kind_of(call, measured));
  RETURN_IF_ERROR(check_compared(call, measured, kind, passes, worst));
  if (kind == ComparedKind::TwoTraces) {
    ASSIGN_OR_RETURN(const TraceTable theirs, read_trace_csv(measured));
    ASSIGN_OR_RETURN(const TraceTable ours, read_trace_csv(call.path));
    ASSIGN_OR_RETURN(
        const Comparison comparison,
        worst ? compare(ours, theirs, static_cast<std::size_t>(*worst)) : compare(ours, theirs));
    return json_line(to_json(comparison));
  }
  ProfiledFiles files{.simulated = call.path, .measured = measured, .passes = passes};
  std::optional<Scenario> scenario;
  if (kind == ComparedKind::Scenario) {
    ASSIGN_OR_RETURN(files.engine, engine_of(call, Engine::SimGrid));
    ASSIGN_OR_RETURN(scenario, resolved_scenario_of(call));
    files.scenario = &*scenario;
  }
  ASSIGN_OR_RETURN(Profile profile, read_profile({measured}));
  ASSIGN_OR_RETURN(const ComparedProfiles both, compare_files(files, std::move(profile)));
  return json_line(to_json(both.comparison));
}

Result<std::string> validated(const CallParameters& call, const MeasureOptions& options) {
  const bool is_log = !call.text && !call.path.ends_with(".toml") && is_log_file(call.path);
  if (is_csv(call) || is_log)
    return Error::at(call.path,
                     "found runs that others measured, expected a suite (TOML): the command for "
                     "them is tandem validate");
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, scenarios_of(call));
  for (const Scenario& scenario : scenarios) {
    const std::string& backend = scenario.measurement.backend;
    if (backend_named(backend)->own_processes)
      return scenario.placed(Error::of(
          {"validate.backend"},
          fmt::format("found validate.backend = \"{}\", expected \"{}\": ranks with processes of "
                      "their own are started by the command tandem validate",
                      backend, backends().front().name)));
  }
  ASSIGN_OR_RETURN(const std::vector<SuiteRow> rows, run_suite(scenarios, options));
  auto array = nlohmann::ordered_json::array();
  for (const SuiteRow& row : rows) array.push_back(to_json(row));
  return json_line(array);
}

Result<std::string> played_for_real(const CallParameters& call, const RealOptions& options) {
  if (is_csv(call)) {
    RETURN_IF_ERROR(check_program(call));
    ASSIGN_OR_RETURN(const Program program, read_program(call.path));
    ASSIGN_OR_RETURN(const auto real, run_for_real(program, options, call.path));
    return json_line(to_json(*real));
  }
  ASSIGN_OR_RETURN(const Scenario scenario, resolved_scenario_of(call));
  ASSIGN_OR_RETURN(const CompiledJob job, compile(scenario));
  ASSIGN_OR_RETURN(const auto real, run_for_real(scenario, job, options));
  return json_line(to_json(*real));
}

Result<std::string> explained(const CallParameters& call,
                              const std::vector<std::string>& measured) {
  if (is_csv(call))
    return Error::at(call.path, "found a Program, expected the scenario of the measured job");
  ASSIGN_OR_RETURN(const Scenario scenario, resolved_scenario_of(call));
  ASSIGN_OR_RETURN(const ExplainedFiles found, explain_files(scenario, measured, Engine::Ideal));
  return json_line(to_json(found.explanation));
}

}  // namespace

Result<PlayedRun> play_one(const CallParameters& call, bool unfolded, bool trace,
                           const OnDone& on_done) {
  PlayedRun one;
  OutputFiles files;
  if (trace) {
    ASSIGN_OR_RETURN(SharedTrace shared, SharedTrace::make());
    one.trace = std::make_unique<SharedTrace>(std::move(shared));
    files.on_trace = [&one](const Program& program, const Trace& events) {
      return one.trace->write(program, events);
    };
  }
  ASSIGN_OR_RETURN(const RunResult result, played(call, unfolded, files, on_done));
  if (trace) RETURN_IF_ERROR(one.trace->map());
  one.json = json_line(to_json(result));
  return one;
}

Result<std::string> live_page(const CallParameters& call, const OnDone& on_done) {
  if (is_csv(call))
    return Error::at(call.path, "found a Program, expected a scenario: a page changes its keys");
  ASSIGN_OR_RETURN(const PageFiles page_files, load_page_files(/*live=*/true));
  ASSIGN_OR_RETURN(const Scenario scenario, scenario_of(call));
  const OutputFiles files{.detail = Detail::Timeline};
  ASSIGN_OR_RETURN(const RunResult result,
                   simulated(call, {scenario}, Engine::Ideal, files, on_done).front());
  const std::string input = call.text ? "scenario.toml" : call.path;
  ASSIGN_OR_RETURN(const PageData page, runs_page(input, {result}, {scenario}, /*live=*/true));
  return html_page(page_files, to_text(page));
}

Result<std::string> explain_run(const CallParameters& call,
                                const std::vector<std::string>& measured, Interrupt* interrupt) {
  return in_own_process([&] { return explained(call, measured); }, interrupt);
}

Result<std::string> compare_measured(const CallParameters& call, const std::string& measured,
                                     const std::string& passes, std::optional<int> worst,
                                     Interrupt* interrupt) {
  return in_own_process([&] { return compared(call, measured, passes, worst); }, interrupt);
}

Result<std::string> validate_suite(const CallParameters& call, const MeasureOptions& options,
                                   Interrupt* interrupt) {
  return in_own_process([&] { return validated(call, options); }, interrupt);
}

Result<PlayedRun> run_real(const CallParameters& call, RealOptions options, Interrupt* interrupt) {
  ASSIGN_OR_RETURN(SharedTrace shared, SharedTrace::make());
  options.files.on_trace = [&shared](const Program& program, const Trace& events) {
    return shared.write(program, events);
  };
  PlayedRun one;
  ASSIGN_OR_RETURN(one.json,
                   in_own_process([&] { return played_for_real(call, options); }, interrupt));
  RETURN_IF_ERROR(shared.map());
  one.trace = std::make_unique<SharedTrace>(std::move(shared));
  return one;
}

Result<PlayedRun> play_all(const CallParameters& call, bool unfolded, const OnDone& on_done) {
  ASSIGN_OR_RETURN(std::vector<Scenario> scenarios, scenarios_of(call));
  ASSIGN_OR_RETURN(const Engine engine, available_engine(call));
  for (Scenario& scenario : scenarios) scenario.fold = !unfolded;
  const auto results = simulated(call, scenarios, engine, {}, on_done);
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok()) {
      Error error = results[i].error();
      error.message += fmt::format(" (run '{}')", scenarios[i].name);
      return error;
    }
    array.push_back(to_json(*results[i]));
  }
  return PlayedRun{json_line(array), nullptr};
}

Result<Swept> sweep_into(const CallParameters& call, const std::string& output,
                         const std::string& list, const OnDone& on_done) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(call.sets));
  ASSIGN_OR_RETURN(ScenarioFile file, file_of(call));
  if (!list.empty()) {
    ASSIGN_OR_RETURN(file.axes.emplace_back(), read_list(list));
  }
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, call.only));
  RETURN_IF_ERROR(check_some_run(file, runs));
  ASSIGN_OR_RETURN(const Engine engine, available_engine(call));
  ASSIGN_OR_RETURN(const Results results, Results::of(file, std::move(runs), engine));
  Swept swept;
  int total = 0;
  SweepEvents events;
  events.started = [&](const SweepStart& start) {
    swept.kept = start.kept;
    total = start.to_run;
    on_done(0, total);
  };
  events.done = [&](int done) { on_done(done, total); };
  ASSIGN_OR_RETURN(
      const SweepEnd end,
      sweep(file, results, engine, {output, jobs_of(call), /*shard=*/{}, /*launched=*/{}}, events));
  swept.path = end.written;
  swept.rows = end.rows;
  swept.failed = end.failed;
  swept.first_failure = end.first_failure;
  return swept;
}

Result<std::string> tune_plan(const CallParameters& call, const std::vector<std::string>& among,
                              const std::string& framework, int keep, double seconds,
                              Interrupt* interrupt,
                              const std::function<void(const std::string&)>& on_better) {
  if (keep < 1 || keep > 1000)
    return Error{fmt::format("keep: found {}, expected 1 to 1000", keep)};
  if (!(seconds > 0)) return Error{fmt::format("seconds: found {}, expected more than 0", seconds)};
  ASSIGN_OR_RETURN(Space space, Space::among(among));
  TuneOptions options{.keep = keep, .jobs = jobs_of(call)};
  if (!framework.empty()) {
    ASSIGN_OR_RETURN(options.framework, framework_named(framework));
    space = space.run_by(*options.framework);
  }
  ASSIGN_OR_RETURN(RunToTune run, run_to_tune_of(call));
  // A framework sets keys that the scenario leaves open. Then the scenario is read again.
  if (options.framework != nullptr) {
    CallParameters narrowed = call;
    options.trainer = trainer_settings(*options.framework, run.scenario);
    for (const auto& [key, value] : options.trainer) narrowed.sets.push_back(key + "=" + value);
    ASSIGN_OR_RETURN(run, run_to_tune_of(narrowed));
  }
  options.own_refused = run.own_refused;
  ASSIGN_OR_RETURN(options.engine, available_engine(call));
  if (!std::isinf(seconds)) options.seconds = seconds;
  options.stop = [interrupt] { return interrupt->pending(); };
  options.on_runs = [interrupt](int) { interrupt->check(); };
  options.on_better = [&on_better](const Found& found, bool) {
    on_better(
        fmt::format("{:.4g} s: {}", to_seconds(found.iteration_ns), plan_text(found.candidate)));
  };
  ASSIGN_OR_RETURN(const Tuned tuned, tune(run.scenario, space, options));
  return json_line(to_json(tuned));
}

Result<std::string> size_purchase(const CallParameters& call, const std::vector<std::string>& among,
                                  Interrupt* interrupt) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(call.sets));
  RETURN_IF_ERROR(Space::among(among));
  ASSIGN_OR_RETURN(const ScenarioFile file, file_of(call));
  ASSIGN_OR_RETURN(const std::vector<SizeCase> cases, load_size_cases(file, sets, call.only));
  ASSIGN_OR_RETURN(const Engine engine, available_engine(call));
  ASSIGN_OR_RETURN(const SizeResult result,
                   size(cases, among,
                        {.jobs = jobs_of(call),
                         .engine = engine,
                         .stop = [interrupt] { return interrupt->pending(); },
                         .on_runs = [interrupt](int) { interrupt->check(); }}));
  return json_line(to_json(result));
}

Result<DrawnOrder> draw_order(const OrderRequest& request) {
  OrderCosts costs;
  if (!request.costs.empty()) {
    ASSIGN_OR_RETURN(costs, order_costs(request.costs));
  }
  ASSIGN_OR_RETURN(const Order order, order_of(request, costs));
  const GridCosts times{costs.forward, costs.input + costs.weight, costs.input, costs.weight};
  const Status drawn = check_grid(order, times);
  return DrawnOrder{.name = order.name,
                    .grid = drawn.ok() ? to_grid(order, times) : drawn.error().message,
                    .actions = to_pytorch(order),
                    .communication = to_pytorch(with_communication(order)),
                    .ranks = order.pp(),
                    .stages = order.stages,
                    .microbatches = order.microbatches};
}

}  // namespace tandem
