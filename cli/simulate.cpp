// tandem simulate: plays the runs of a scenario, or a Program, through a simulation engine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "base/xml.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "interop/chakra/chakra_file.h"
#include "launch/standard_output.h"
#include "planning/simulate/chakra_run.h"
#include "planning/simulate/sensitivity.h"
#include "planning/simulate/simulate.h"
#include "planning/what_if/memory_fixes.h"
#include "report/page/html_page.h"
#include "report/page/runs_page.h"
#include "report/text/memory_table.h"
#include "report/text/table.h"
#include "report/text/timeline_text.h"
#include "report/text/variability_table.h"
#include "schedule/program/program_text.h"
#include "traces/profile/kineto_writer.h"

namespace tandem {
namespace {

struct SimulateOptions {
  std::string input;
  std::string engine;  // empty: simgrid for a scenario, ideal for a Program
  std::vector<std::string> sets;
  std::string only;
  std::string files_of;
  OutputFiles files;
  std::string report;
  bool live = false;
  PricedBy priced_by;
  ChakraSource chakra;
  int jobs = 0;
  int repeat = 0;  // 0: as many as the scenario says
  double budget_s = 0;
  bool sensitivity = false;
  bool unfolded = false;
  bool json = false;
  bool wide = false;
  bool timeline = false;
  bool bars = false;
  bool memory = false;
  std::string colour = "auto";
};

// Prints each warning once, with the name of the first run that has it and the number of others.
void print_warnings(const std::vector<RunResult>& results) {
  struct Repeated {
    std::string first;
    int others = 0;
  };
  std::vector<Repeated> warnings;
  std::map<std::string, std::size_t> index_of;  // by the warning without a run's name
  for (const RunResult& result : results) {
    for (const std::string& warning : result.warnings) {
      const std::string run = result.name + ": ";
      const std::string text = warning.substr(warning.starts_with(run) ? run.size() : 0);
      const auto [index, is_new] = index_of.try_emplace(text, warnings.size());
      if (is_new) {
        warnings.push_back({warning});
      } else {
        ++warnings[index->second].others;
      }
    }
  }
  for (const auto& [first, others] : warnings) {
    say(fmt::format(
        "warning: {}{}", first,
        others == 0 ? "" : fmt::format(" (and {} other run{})", others, others == 1 ? "" : "s")));
  }
}

// Adds a warning to each run that is compared with nothing, as its baseline was not played.
void warn_of_missing_baselines(const std::vector<Scenario>& scenarios,
                               std::vector<RunResult>* results) {
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    const std::string& baseline = scenarios[i].report.baseline;
    const std::vector<std::string>& points = scenarios[i].points;
    RunResult& result = (*results)[i];
    if (baseline.empty() || result.saving || std::ranges::find(points, baseline) != points.end())
      continue;
    result.warnings.push_back(fmt::format(
        "{}: report.baseline = {}: its run was not played or failed, so no saving against it is "
        "shown",
        result.name, baseline));
  }
}

void print_pictures(const std::vector<RunResult>& results, const SimulateOptions& options) {
  const bool colour = in_colour(options.colour);
  if (options.bars)
    fmt::print(standard_output(), "{}\n", bars_text(results, text_width(options.wide), colour));
  if (!options.timeline) return;
  for (const RunResult& result : results) {
    if (result.detail.empty()) continue;
    fmt::print(standard_output(), "{}\n{}\n", printable(result.name),
               timeline_text(strip_of(result.detail), colour));
  }
}

// Prints JSON, or tables and lines. `traffic`: with columns of what a GPU sends (report.traffic).
void print(const std::vector<RunResult>& results, const SimulateOptions& options,
           bool traffic = false) {
  print_warnings(results);
  if (options.json) {
    nlohmann::ordered_json array = nlohmann::ordered_json::array();
    for (const RunResult& result : results) array.push_back(to_json(result));
    fmt::print(standard_output(), "{}", json_document(array));
  } else {
    const int width = text_width(options.wide);
    fmt::print(standard_output(), "{}\n", run_table(results, traffic, width));
    print_pictures(results, options);
    if (options.memory) fmt::print(standard_output(), "{}\n", memory_table(results, width));
    for (const std::string& table : {savings_table(results, width), repeats_table(results, width),
                                     sensitivity_table(results, width)}) {
      if (!table.empty()) fmt::print(standard_output(), "{}\n", table);
    }
    fmt::print(standard_output(), "{}", wrapped(conclusions(results), width));
    if (const std::string text = explanatory_notes(results); !text.empty())
      fmt::print(standard_output(), "\n{}", wrapped(text, width));
  }
}

// `scenarios`: those of the results; none: the input is no scenario. `chosen`: the run that the
// page shows first, the first one by default.
Status write_report(const SimulateOptions& options, const std::vector<RunResult>& results,
                    const std::vector<Scenario>& scenarios = {}, const std::string& chosen = "") {
  if (options.report.empty()) return Done{};
  ASSIGN_OR_RETURN(PageData page, runs_page(options.input, results, scenarios, options.live));
  const auto found = std::ranges::find(results, chosen, &RunResult::name);
  page.chosen = found == results.end() ? 0 : found - results.begin();
  limit_timelines(&page);
  return write_html_page(page, options.report, options.live);
}

// Returns the index of the run that --files-of names.
Result<int> index_of_files(const std::vector<Scenario>& scenarios, const std::string& name) {
  if (name.empty()) return 0;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    if (scenarios[i].name == name) return static_cast<int>(i);
  }
  return Error{fmt::format("--files-of: found no run '{}', expected one such as '{}'", name,
                           scenarios.front().name)};
}

Status simulate_program(const SimulateOptions& options) {
  if (options.engine == "simgrid")
    return Error::at(
        options.input,
        fmt::format("found a Program with --engine {}, expected --engine ideal: a Program has no "
                    "cluster",
                    options.engine));
  ASSIGN_OR_RETURN(const Program program, read_program(options.input));
  ASSIGN_OR_RETURN(const RunResult result,
                   simulate_program(program, options.files, !options.unfolded, options.priced_by));
  RETURN_IF_ERROR(write_report(options, {result}));
  print({result}, options);
  return Done{};
}

Status simulate_chakra(const SimulateOptions& options) {
  ChakraSource source = options.chakra;
  source.path = options.input;
  if (source.cluster.empty() && options.engine == "simgrid")
    return Error::at(options.input,
                     "found Chakra traces with --engine simgrid, expected --cluster as well");
  std::optional<Waiting> waiting("reading the traces");
  ASSIGN_OR_RETURN(const ChakraRun run, load_chakra(source));
  waiting.reset();
  const Engine engine = source.cluster.empty() ? Engine::Ideal : engine_of(options.engine);
  ASSIGN_OR_RETURN(const RunResult result,
                   simulate_chakra(run, engine, options.files, !options.unfolded));
  RETURN_IF_ERROR(write_report(options, {result}));
  print({result}, options);
  return Done{};
}

// Loads the scenario's runs, with the options that replace keys or fields of them.
Result<std::vector<Scenario>> load_runs(const SimulateOptions& options) {
  std::vector<std::string> texts = options.sets;
  if (const std::string& costs = options.priced_by.costs; !costs.empty()) {
    texts.push_back("costs.source=table");
    texts.push_back("costs.table=" + std::filesystem::absolute(costs).string());
  }
  if (options.repeat > 0) texts.push_back(fmt::format("variability.runs={}", options.repeat));
  ASSIGN_OR_RETURN(const auto sets, parse_sets(texts));
  const Waiting waiting("reading the runs");
  ASSIGN_OR_RETURN(std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  RETURN_IF_ERROR(check_budget(scenarios, options.budget_s));
  for (Scenario& scenario : scenarios) {
    scenario.fold = !options.unfolded;
    scenario.job.order_seconds = options.budget_s;
  }
  return scenarios;
}

// Plays a single run in this process, which may use SimGrid once, and several in child processes.
std::vector<Result<RunResult>> play_runs(const SimulateOptions& options,
                                         const std::vector<Scenario>& scenarios, Engine engine,
                                         int jobs, int files_of) {
  const bool is_single = scenarios.size() == 1 && !options.sensitivity;
  if (!is_single) return simulate_all(scenarios, engine, jobs, options.files, files_of);
  std::vector<Result<RunResult>> played;
  played.push_back(simulate(scenarios[0], engine, options.files, /*progress=*/true, jobs));
  return played;
}

Status simulate_scenarios(const SimulateOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, load_runs(options));
  ASSIGN_OR_RETURN(const int files_of, index_of_files(scenarios, options.files_of));
  const Engine engine = options.live ? Engine::Ideal : engine_of(options.engine);
  const int jobs = jobs_or_cores(options.jobs);
  std::vector<Result<RunResult>> played = play_runs(options, scenarios, engine, jobs, files_of);
  add_memory_fixes(scenarios, jobs, &played);
  std::vector<RunResult> results;
  std::vector<Scenario> scenarios_of_results;
  std::vector<Error> errors;
  for (std::size_t i = 0; i < played.size(); ++i) {
    if (played[i].ok()) {
      results.push_back(*played[i]);
      scenarios_of_results.push_back(scenarios[i]);
      continue;
    }
    errors.push_back(played[i].error());
    if (played.size() > 1) errors.back().message += fmt::format(" (run '{}')", scenarios[i].name);
  }
  if (results.empty()) return errors.front();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!options.sensitivity) continue;
    ASSIGN_OR_RETURN(results[i].sensitivity, sensitivity(scenarios_of_results[i], engine,
                                                         results[i], /*progress=*/true, jobs));
  }
  warn_of_missing_baselines(scenarios_of_results, &results);
  RETURN_IF_ERROR(write_report(options, results, scenarios_of_results, scenarios[files_of].name));
  print(results, options, scenarios[0].report.traffic);
  if (!options.json && !scenarios[0].report.note.empty())
    fmt::print(standard_output(), "\n{}\n",
               wrapped(scenarios[0].report.note, text_width(options.wide)));
  if (errors.empty()) return Done{};
  for (std::size_t i = 1; i < errors.size(); ++i) say(errors[i].text());
  return errors.front();
}

}  // namespace

void add_simulate(const Command& app) {
  auto options = std::make_shared<SimulateOptions>();
  const Command command = app.subcommand(
      "simulate",
      "Simulates the runs of a scenario (TOML), a priced Program (CSV, ideal engine only), or "
      "Chakra execution traces (ET), one a rank.");
  command
      .option("input", &options->input,
              "SCENARIO.toml, PROGRAM.csv or PREFIX.0.et (all ranks of this prefix)")
      .required();
  add_engine(command, &options->engine,
             "simgrid: flows that share a link share its bandwidth (default for a "
             "scenario); ideal: no contention (default for a Program)");
  add_sets(command, &options->sets, "the file's settings, for every run");
  command.option("--only", &options->only, "only runs whose name holds this text");
  const Option costs = command.option(
      "--costs", &options->priced_by.costs,
      "a table of tandem calibrate device: what kernels take, and of a Program also its "
      "communication; costs.source = table");
  command
      .option("--op-times", &options->priced_by.op_times,
              "a trace of the Program: each op takes what was measured there, its median over "
              "equal ranks; or profiles of a real run, by its annotated passes")
      .excludes(costs);
  command.option("--cluster", &options->chakra.cluster,
                 "of Chakra traces: what prices their communication, a preset (tandem topology) or "
                 "a scenario with one; default what the traces say");
  command.option("--comm-groups", &options->chakra.groups,
                 "of Chakra traces: their process groups; default PREFIX.groups.json");
  command.option("--trace", &options->files.trace_csv, "write one run's trace as CSV");
  command.option("--perfetto", &options->files.perfetto,
                 "write one run's trace for https://ui.perfetto.dev (Open trace file)");
  command.option(
      "--kineto", &options->files.kineto,
      "write one run's trace into this folder as profiles of torch.profiler, a file a rank: for "
      "Holistic Trace Analysis, TensorBoard, Perfetto");
  command.option("--plot", &options->files.svg, "draw one run's timeline as SVG");
  command.option("--report", &options->report,
                 "write a page to open in a browser, offline: timeline, where the time goes, "
                 "memory over time");
  command.flag(
      "--live", &options->live,
      "of --report: the page simulates again what is changed in it; with the ideal engine");
  command.option(
      "--files-of", &options->files_of,
      "the run of --trace, --perfetto, --kineto, --plot and --timeline, and which --report shows "
      "first, by its name; default the first");
  add_budget(command, &options->budget_s);
  command.option("--jobs", &options->jobs, "runs at once; default one a core").at_least_one();
  command
      .option("--repeat", &options->repeat,
              "play each run so often, with one seed after another, and give p5, p50 and p95; "
              "variability.runs")
      .at_least_one();
  command.flag("--sensitivity", &options->sensitivity,
               "what the iteration takes more when a stage, a kind of communication or a "
               "level of links is 10 % slower, one by one");
  command.flag("--unfolded", &options->unfolded, "play every rank: none stands for its equals");
  command.flag(
      "--timeline", &options->timeline,
      "draw one run's timeline below the table: a row for each pipeline rank, blocks as high "
      "as compute's share of the time");
  command.flag("--bars", &options->bars,
               "draw below the table where each run's time goes: compute, exposed communication, "
               "bubble");
  command.flag("--memory", &options->memory,
               "print below the table what each run's fullest GPU holds at its peak, by class of "
               "tensor, and when that is");
  add_colour(command, &options->colour);
  command.flag("--json", &options->json, "print one JSON array, an object a run, and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem simulate scenarios/megatron-sc21.toml --only 39B --perfetto 39B.json\n"
      "         tandem simulate scenarios/megatron-sc21.toml --report models.html --live\n"
      "         tandem simulate scenarios/megatron-sc21.toml --only '1T, selene' --set "
      "variability.jitter=0.05");
  // Says which options apply, by the kind of the input: c Chakra trace, p Program, s scenario.
  const auto input = [options]() -> Result<CommandInput> {
    if (is_chakra_path(options->input)) return CommandInput{options->input, "c"};
    return scenario_or_program(options->input);
  };
  const auto run = [options]() -> Status {
    const OutputFiles& files = options->files;
    RETURN_IF_ERROR(check_files(
        options->input, options->sets,
        {{"--trace", files.trace_csv},
         {"--perfetto", files.perfetto},
         {"--plot", files.svg},
         {"--report", options->report}},
        {{"--costs", options->priced_by.costs}, {"--op-times", options->priced_by.op_times}}));
    if (options->live && options->engine == "simgrid")
      return Error{"--live: found --engine simgrid, expected ideal: a page has no other engine"};
    RETURN_IF_ERROR(check_html_page(options->report, options->live));
    RETURN_IF_ERROR(check_kineto_folder(files.kineto));
    if (!options->report.empty()) options->files.detail = Detail::Timeline;
    if (options->timeline) options->files.strip_columns = strip_columns(text_width(options->wide));
    if (is_chakra_path(options->input)) return simulate_chakra(*options);
    return options->input.ends_with(".csv") ? simulate_program(*options)
                                            : simulate_scenarios(*options);
  };
  command.run(run, input);
}

}  // namespace tandem
