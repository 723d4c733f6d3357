// tandem sweep: plays all runs of a scenario, or of a list of settings, into one CSV.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/csv.h"
#include "base/file.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "launch/standard_output.h"
#include "planning/sweep/sweep.h"
#include "report/page/html_page.h"
#include "report/page/sweep_page.h"
#include "sim/engines.h"

namespace tandem {
namespace {

struct SweepCommand {
  std::string input;
  std::string list;
  std::string output;
  std::string report;
  std::string engine = "simgrid";
  std::vector<std::string> sets;
  std::string only;
  std::string shard;
  int jobs = 0;
};

// Reads "3/8" as the third of eight shards; "" as none.
Result<std::optional<Shard>> parse_shard(const std::string& text) {
  if (text.empty()) return std::optional<Shard>();
  const std::size_t slash = text.find('/');
  const auto number = parse_integer(text.substr(0, slash));
  const auto of = parse_integer(slash == std::string::npos ? "" : text.substr(slash + 1));
  if (!number.ok() || !of.ok() || *number < 1 || *number > *of || *of > 1'000'000)
    return Error{fmt::format("--shard: found '{}', expected I/N with I from 1 to N", text)};
  return std::optional(Shard{static_cast<int>(*number), static_cast<int>(*of)});
}

// Writes the page where the CSV holds the whole sweep, not the part of one shard.
Status write_report(const SweepCommand& words, const SweepEnd& ended) {
  if (words.report.empty() || ended.written != words.output) return Done{};
  ASSIGN_OR_RETURN(PageTable table, sweep_table(words.output));
  const std::filesystem::path input(words.input);
  const std::size_t runs = table.rows.size();
  return write_html_page(
      {.title = fmt::format("Which of {} runs of {} is best?", runs, input.stem().string()),
       .source = input.filename().string(),
       .runs = {},
       .comparison = {},
       .table = std::move(table)},
      words.report);
}

void print_start(const SweepStart& start, const std::string& output) {
  if (!start.resumed && start.cut_bytes == 0) return;
  std::string text = fmt::format("{}: {} rows kept", output, start.kept);
  if (start.cut_bytes > 0) text += ", a torn line cut";
  const std::string aside = fmt::format("(they stay in {}.old)", output);
  if (start.dropped > 0)
    text += fmt::format(", {} dropped that no run has {}", start.dropped, aside);
  if (start.changed > 0)
    text += fmt::format(", {} dropped that are not as they were written {}", start.changed, aside);
  if (start.again > 0) text += fmt::format(", {} failed runs again", start.again);
  say(fmt::format("{}, {} to run", text, start.to_run));
}

// Checks the files, before the long work. The results must be a file or not there yet, as they are
// read again. A sweep writes two more files beside them.
Status check_sweep_files(const SweepCommand& words) {
  const std::string& output = words.output;
  std::error_code unknown;
  if (std::filesystem::exists(output, unknown))
    RETURN_IF_ERROR(check_readable(output, "a CSV file, or none"));
  return check_files(words.input, words.sets,
                     {{"-o", output},
                      {"--report", words.report},
                      {"the lock of -o", output + ".lock"},
                      {"what -o drops", output + ".old"}},
                     {{"--list", words.list}});
}

Status run_sweep(const SweepCommand& words) {
  RETURN_IF_ERROR(check_sweep_files(words));
  RETURN_IF_ERROR(check_html_page(words.report));
  ASSIGN_OR_RETURN(const std::optional<Shard> shard, parse_shard(words.shard));
  ASSIGN_OR_RETURN(const auto sets, parse_sets(words.sets));
  std::optional<Waiting> waiting("reading the runs");
  ASSIGN_OR_RETURN(ScenarioFile file, read_scenario_file(words.input));
  if (!words.list.empty()) {
    ASSIGN_OR_RETURN(file.axes.emplace_back(), read_list(words.list));
  }
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, words.only));
  RETURN_IF_ERROR(check_some_run(file, runs));
  const Engine engine = engine_of(words.engine);
  if (engine == Engine::SimGrid) RETURN_IF_ERROR(simgrid_available());
  ASSIGN_OR_RETURN(const Results results, Results::of(file, std::move(runs), engine));
  waiting.reset();  // ends its thread: the sweep forks

  SweepOptions options{words.output, words.jobs, shard, launched_rank()};
  const bool many = options.launched && options.launched->ranks > 1;
  if (many && shard)
    return Error{
        fmt::format("--shard: found {} ranks ({}), expected one process: ranks share the "
                    "runs by themselves",
                    options.launched->ranks, options.launched->family)};
  if (options.jobs == 0) options.jobs = many ? 1 : jobs_or_cores(0);
  std::optional<Progress> progress;
  int done = 0;
  SweepEvents events;
  events.started = [&](const SweepStart& start) {
    print_start(start, words.output);
    progress.emplace("runs", start.to_run);
  };
  events.done = [&](int runs_done) {
    if (progress) progress->advance(runs_done - done);
    done = runs_done;
  };
  const auto ended = sweep(file, results, engine, options, events);
  progress.reset();
  if (!ended.ok()) return ended.error();
  if (!ended->is_reporter) return Done{};
  if (ended->failed > 0)
    say(fmt::format("{}: {} of {} runs failed, the first is '{}': see the column error",
                    ended->written, ended->failed, ended->rows, ended->first_failure));
  fmt::print(standard_output(), "{}: {} rows\n", ended->written, ended->rows);
  return write_report(words, *ended);
}

}  // namespace

void add_sweep(const Command& app) {
  auto words = std::make_shared<SweepCommand>();
  const Command command = app.subcommand(
      "sweep",
      "Simulates all runs of a scenario, thousands of them, into one CSV. Killed and started "
      "again it goes on. Under mpirun or srun the ranks share the runs.");
  command.option("input", &words->input, "SCENARIO.toml").required();
  command.option("-o,--output", &words->output, "the CSV: a row a run").required();
  command.option("--report", &words->report,
                 "write a page of the whole sweep to open in a browser, offline: the "
                 "frontier, every column side by side, the rows to filter");
  command.option("--list", &words->list,
                 "a CSV with a row a run, its columns keys of a scenario (and name): each "
                 "over the scenario's settings");
  command
      .option("--engine", &words->engine,
              "simgrid: flows that share a link share its bandwidth (default); ideal: no "
              "contention")
      .one_of({"ideal", "simgrid"});
  command
      .option("--set", &words->sets,
              "KEY=VALUE over the file's settings, for every run; repeatable")
      .one_value_each();
  command.option("--only", &words->only, "only runs whose name holds this text");
  command
      .option("--jobs", &words->jobs,
              "runs at once; default one a core, under mpirun or srun one a rank")
      .at_least_one();
  command.option("--shard", &words->shard,
                 "I/N: every N-th run from the I-th on, into a part beside the CSV, for jobs "
                 "that know nothing of one another; without --shard their parts are joined");
  command.footer(
      "Example: tandem sweep scenarios/nemo-pipeline.toml -o results.csv --engine ideal\n"
      "         mpirun -np 64 tandem sweep scenarios/nemo-pipeline.toml -o results.csv");
  command.run([words] { return run_sweep(*words); });
}

}  // namespace tandem
