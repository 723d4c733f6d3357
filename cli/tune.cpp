// tandem tune: searches the fastest plan for a model, a number of GPUs and a cluster, and writes it
// as a table, a page, JSON, or in another framework's format.
#include "planning/tune/tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "interop/emit/emit.h"
#include "job/doubts.h"
#include "launch/standard_output.h"
#include "planning/tune/frameworks.h"
#include "planning/tune/own_plan.h"
#include "report/page/html_page.h"
#include "report/page/plan_page.h"
#include "report/text/tune_table.h"

namespace tandem {
namespace {

struct TuneCommand {
  std::string input;
  std::string engine = "simgrid";
  std::vector<std::string> sets, among;
  std::string only;
  std::string framework, emit, output;
  int keep = 5;
  int refine = 3;
  int jobs = 0;
  double seconds = 0;
  std::string report;
  bool json = false;
  bool wide = false;
};

volatile std::sig_atomic_t interrupted = 0;

// Has the first Ctrl-C end the search; the second ends the program.
void end_search_at_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

// Quotes the text where a shell would not take it as one word.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-=/,+:").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

using KeySettings = std::vector<std::pair<std::string, Setting>>;

// Writes the best plan in another tool's format. Its settings replace those of the scenario.
Result<std::string> emitted(const TuneCommand& options, const Scenario& scenario,
                            const KeySettings& sets, const Tuned& tuned) {
  const Finalist& best = tuned.finalists.front();
  if (!best.result.ok()) return best.result.error();
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(options.input));
  ASSIGN_OR_RETURN(const std::vector<RunSettings> runs, runs_of(file, sets, options.only));
  PlanSettings settings;
  for (const auto& [key, setting] : runs.front().settings) settings[key] = setting.text();
  // `cleared` are keys of the scenario that no plan of the search has.
  for (const std::string& key : tuned.cleared) settings.erase(key);
  for (const auto& [key, value] : plan_settings(best.candidate, best.refinement))
    settings[key] = value;
  // The search found a layout where the scenario says "auto".
  if (best.refinement.layout) settings["parallel.layout"] = best.result->layout;
  for (const auto& [key, value] : facts_for_flags(scenario)) settings[key] = value;
  return emit_plan(options.emit, settings);
}

// Checks the options that need no search.
Status check_tune(const TuneCommand& options) {
  RETURN_IF_ERROR(check_files(options.input, options.sets,
                              {{"--report", options.report}, {"-o", options.output}}));
  if (options.json && !options.emit.empty() && options.output.empty())
    return Error{"--json: found with --emit, expected -o FILE for the plan"};
  if (!options.emit.empty()) {
    if (const auto known = emit_plan(options.emit, {}); !known.ok()) return known.error();
  }
  return check_html_page(options.report);
}

// Searches, and prints each better plan on a terminal as it is found. `tune_options`: has the
// framework and its settings, if there is one; gets the other options here.
Result<Tuned> search_plans(const TuneCommand& options, const Scenario& scenario, const Space& space,
                           TuneOptions tune_options) {
  end_search_at_interrupt();
  tune_options.keep = options.keep;
  tune_options.refine = options.refine;
  tune_options.jobs = jobs_or_cores(options.jobs);
  tune_options.engine = engine_of(options.engine);
  tune_options.detail = options.report.empty() ? Detail::None : Detail::Timeline;
  tune_options.stop = [] { return interrupted != 0; };
  tune_options.seconds = options.seconds;
  if (isatty(STDERR_FILENO) != 0)
    tune_options.on_better = [](const Found& found, bool keeps_rules) {
      fmt::print(stderr, "\r\033[K{}\n", better_line(found, keeps_rules));
    };
  return tune(scenario, space, tune_options);
}

// Returns the command that simulates the scenario with this command's options. `cleared`: keys that
// no plan of the search has; their --set is left out.
std::string simulate_command(const TuneCommand& options, const std::vector<std::string>& cleared) {
  std::string command = "tandem simulate " + shell_word(options.input);
  if (!options.only.empty()) command += " --only " + shell_word(options.only);
  if (options.engine != "simgrid") command += " --engine " + options.engine;
  for (const std::string& set : options.sets) {
    if (std::ranges::find(cleared, set.substr(0, set.find('='))) == cleared.end())
      command += " --set " + shell_word(set);
  }
  return command;
}

// Writes the page and the emitted plan, and prints the plan, JSON or a table.
Status write_results(const TuneCommand& options, const Scenario& scenario, const KeySettings& sets,
                     const Tuned& tuned) {
  if (!options.report.empty()) {
    const std::string title = fmt::format("Which plan of {} on {} GPUs is fastest?", scenario.name,
                                          scenario.cluster.gpus);
    RETURN_IF_ERROR(write_html_page(tune_page(title, tuned), options.report));
  }
  std::string text;
  if (!options.emit.empty()) {
    ASSIGN_OR_RETURN(text, emitted(options, scenario, sets, tuned));
    if (!options.output.empty()) RETURN_IF_ERROR(write_file(options.output, text));
  }
  const bool prints_plan = !options.emit.empty() && options.output.empty();
  if (!prints_plan)
    text = options.json ? json_document(to_json(tuned))
                        : tune_text(tuned, simulate_command(options, tuned.cleared),
                                    text_width(options.wide));
  fmt::print(standard_output(), "{}", text);
  return Done{};
}

struct LoadedScenario {
  KeySettings sets;  // from --set; the scenario has them, too
  RunToTune run;
};

Result<LoadedScenario> load_tuned(const TuneCommand& options) {
  ASSIGN_OR_RETURN(KeySettings sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(options.input));
  ASSIGN_OR_RETURN(RunToTune run, run_to_tune(file, sets, options.only));
  return LoadedScenario{std::move(sets), std::move(run)};
}

Status run_tune(TuneCommand options) {
  RETURN_IF_ERROR(check_tune(options));
  ASSIGN_OR_RETURN(Space space, Space::among(options.among));
  TuneOptions tune_options;
  const std::string& framework = options.framework.empty() ? options.emit : options.framework;
  if (!framework.empty()) {
    ASSIGN_OR_RETURN(tune_options.framework, framework_named(framework));
    space = space.run_by(*tune_options.framework);
  }
  ASSIGN_OR_RETURN(LoadedScenario loaded, load_tuned(options));
  // A framework sets keys that the scenario leaves open. Then the scenario is loaded again.
  if (tune_options.framework != nullptr) {
    tune_options.trainer = trainer_settings(*tune_options.framework, loaded.run.scenario);
    for (const auto& [key, value] : tune_options.trainer)
      options.sets.push_back(fmt::format("{}={}", key, value));
    ASSIGN_OR_RETURN(loaded, load_tuned(options));
  }
  const auto& [scenario, own_refused] = loaded.run;
  tune_options.own_refused = own_refused;
  if (!own_refused.empty())
    say("warning: the scenario's own plan is refused, others are searched: " + own_refused);
  for (const std::string& note : scenario.notes) say("warning: " + note);
  for (const std::string& doubt : doubts_of_any_plan(scenario)) say("warning: " + doubt);
  ASSIGN_OR_RETURN(const Tuned tuned, search_plans(options, scenario, space, tune_options));
  return write_results(options, scenario, loaded.sets, tuned);
}

}  // namespace

void add_tune(const Command& app) {
  auto options = std::make_shared<TuneCommand>();
  const Command command = app.subcommand(
      "tune",
      "Finds the fastest plan for a scenario's model, batch and GPUs: of all parallel sizes, "
      "orders, recompute, ZeRO and overlaps that fit into memory. What the scenario says of its "
      "own plan is only compared.");
  command.option("input", &options->input, "SCENARIO.toml").required();
  command
      .option("--among", &options->among,
              "KEY=VALUE,VALUE: only plans with one of these values; repeatable. Keys: " +
                  fmt::format("{}", fmt::join(Space::keys(), ", ")))
      .one_value_each();
  command.option("--framework", &options->framework,
                 "megatron, nemo, chatlearn, deepspeed, fsdp or torchtitan: only plans that it "
                 "runs (docs/planning.md has its rules)");
  command.option(
      "--emit", &options->emit,
      "megatron, nemo, chatlearn, deepspeed, fsdp or torchtitan: print the best plan as "
      "its flags or file, and nothing else; without --framework only plans that it runs");
  command.option("-o,--output", &options->output,
                 "with --emit: the file to write instead, beside the table");
  add_sets(command, &options->sets, "the file's settings");
  command.option("--only", &options->only, "the run whose name holds this text");
  command
      .option("--keep", &options->keep,
              "plans to simulate, no two with the same parallel sizes and order; default 5")
      .range(1, 1000);
  command
      .option("--refine", &options->refine,
              "of the best plans, those to be played with parallel.layout = auto, "
              "schedule.vocabulary = parallel and schedule.order = auto, where --among asks for "
              "them; default 3")
      .range(1, 1000);
  add_engine(command, &options->engine, "what plays them: simgrid (default) or ideal");
  command
      .option("--jobs", &options->jobs,
              "threads of the search, and simulations at once; default one a core")
      .at_least_one();
  command
      .option(
          "--seconds", &options->seconds,
          "end the search after so long, as Ctrl-C does, with the best so far and an estimate of "
          "how far at most it is above the best; what is not simulated after twice as long is "
          "left at its price: two runs may end differently; default: none")
      .range(1e-3, 1e6);
  command.option("--report", &options->report,
                 "write a page to open in a browser, offline: the plans' frontier of time and "
                 "memory, and the timelines of the best and of the scenario's own");
  command.flag("--json", &options->json, "print one JSON document, and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Ctrl-C ends the search and gives the best so far.\n"
      "Example: tandem tune scenarios/megatron-sc21.toml --only '39B, selene' --among "
      "parallel.tp=4,8 --among schedule.order=1f1b,interleaved");
  command.run([options]() -> Status { return run_tune(*options); });
}

}  // namespace tandem
