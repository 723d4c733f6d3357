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
  const auto shards = parse_integer(slash == std::string::npos ? "" : text.substr(slash + 1));
  if (!number.ok() || !shards.ok() || *number < 1 || *number > *shards || *shards > 1'000'000)
    return Error{fmt::format("--shard: found '{}', expected I/N with I from 1 to N", text)};
  return std::optional(Shard{static_cast<int>(*number), static_cast<int>(*shards)});
}

// Writes the page if the CSV holds the whole sweep, not one shard of it.
Status write_report(const SweepCommand& options, const SweepEnd& ended) {
  if (options.report.empty() || ended.written != options.output) return Done{};
  ASSIGN_OR_RETURN(PageTable table, sweep_table(options.output));
  const std::filesystem::path input(options.input);
  const std::size_t runs = table.rows.size();
  return write_html_page(
      {.title = fmt::format("Which of {} runs of {} is best?", runs, input.stem().string()),
       .source = input.filename().string(),
       .runs = {},
       .comparison = {},
       .table = std::move(table)},
      options.report);
}

// Prints how much of an earlier sweep's CSV is kept.
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

// Checks the files, before the long work. The CSV is read again if it exists, so it must be
// readable. A sweep writes two more files beside it.
Status check_sweep_files(const SweepCommand& options) {
  const std::string& output = options.output;
  std::error_code unknown;
  if (std::filesystem::exists(output, unknown))
    RETURN_IF_ERROR(check_readable(output, "a CSV file, or none"));
  return check_files(options.input, options.sets,
                     {{"-o", output},
                      {"--report", options.report},
                      {"the lock of -o", output + ".lock"},
                      {"what -o drops", output + ".old"}},
                     {{"--list", options.list}});
}

// The runs of a sweep, read and checked.
struct SweepRuns {
  ScenarioFile file;
  Results results;
};

Result<SweepRuns> read_sweep(const SweepCommand& options, Engine engine) {
  const Waiting waiting("reading the runs");
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(ScenarioFile file, read_scenario_file(options.input));
  if (!options.list.empty()) {
    ASSIGN_OR_RETURN(file.axes.emplace_back(), read_list(options.list));
  }
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, options.only));
  RETURN_IF_ERROR(check_some_run(file, runs));
  if (engine == Engine::SimGrid) RETURN_IF_ERROR(simgrid_available());
  ASSIGN_OR_RETURN(Results results, Results::of(file, std::move(runs), engine));
  return SweepRuns{std::move(file), std::move(results)};
}

Status run_sweep(const SweepCommand& options) {
  RETURN_IF_ERROR(check_sweep_files(options));
  RETURN_IF_ERROR(check_html_page(options.report));
  ASSIGN_OR_RETURN(const std::optional<Shard> shard, parse_shard(options.shard));
  const auto launched = launched_rank();
  const bool has_ranks = launched && launched->ranks > 1;
  if (has_ranks && shard)
    return Error{
        fmt::format("--shard: found {} ranks ({}), expected one process: ranks share the "
                    "runs by themselves",
                    launched->ranks, launched->family)};
  const bool shares_cores = has_ranks && options.jobs == 0;  // then each rank takes one
  const int jobs = shares_cores ? 1 : jobs_or_cores(options.jobs);
  const Engine engine = engine_of(options.engine);
  // Reads in a function of its own, so that the thread that shows progress has ended before the
  // sweep forks.
  ASSIGN_OR_RETURN(const SweepRuns runs, read_sweep(options, engine));
  std::optional<Progress> progress;
  int done = 0;
  SweepEvents events;
  events.started = [&](const SweepStart& start) {
    print_start(start, options.output);
    progress.emplace("runs", start.to_run);
  };
  events.done = [&](int runs_done) {
    if (progress) progress->advance(runs_done - done);
    done = runs_done;
  };
  const auto ended = sweep(runs.file, runs.results, engine,
                           SweepOptions{options.output, jobs, shard, launched}, events);
  progress.reset();
  if (!ended.ok()) return ended.error();
  if (!ended->is_reporter) return Done{};
  if (ended->failed > 0)
    say(fmt::format("{}: {} of {} runs failed, the first is '{}': see the column error",
                    ended->written, ended->failed, ended->rows, ended->first_failure));
  if (ended->warned > 0)
    say(fmt::format("{}: {} of {} runs have warnings: see the column warnings", ended->written,
                    ended->warned, ended->rows));
  fmt::print(standard_output(), "{}: {} rows\n", ended->written, ended->rows);
  return write_report(options, *ended);
}

}  // namespace

void add_sweep(const Command& app) {
  auto options = std::make_shared<SweepCommand>();
  const Command command = app.subcommand(
      "sweep",
      "Simulates all runs of a scenario, thousands of them, into one CSV. Killed and started "
      "again it goes on. Under mpirun or srun the ranks share the runs.");
  command.option("input", &options->input, "SCENARIO.toml").required();
  command.option("-o,--output", &options->output, "the CSV: a row a run").required();
  command.option("--report", &options->report,
                 "write a page of the whole sweep to open in a browser, offline: the "
                 "frontier, every column side by side, the rows to filter");
  command.option("--list", &options->list,
                 "a CSV with a row a run, its columns keys of a scenario (and name): each "
                 "over the scenario's settings");
  add_engine(command, &options->engine,
             "simgrid: flows that share a link share its bandwidth (default); ideal: no "
             "contention");
  add_sets(command, &options->sets, "the file's settings, for every run");
  command.option("--only", &options->only, "only runs whose name holds this text");
  command
      .option("--jobs", &options->jobs,
              "runs at once; default one a core, under mpirun or srun one a rank")
      .at_least_one();
  command.option("--shard", &options->shard,
                 "I/N: every N-th run from the I-th on, into a part beside the CSV, for jobs "
                 "that know nothing of one another; without --shard their parts are joined");
  command.footer(
      "Example: tandem sweep scenarios/nemo-pipeline.toml -o results.csv --engine ideal\n"
      "         mpirun -np 64 tandem sweep scenarios/nemo-pipeline.toml -o results.csv");
  command.run([options] { return run_sweep(*options); });
}

}  // namespace tandem
