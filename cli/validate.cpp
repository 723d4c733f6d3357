// tandem validate: compares simulated with measured runs. The runs of a suite are measured here;
// those of cases (a list) and of a log were measured by others.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "cli/predict_cases.h"
#include "launch/standard_output.h"
#include "report/text/log_table.h"
#include "report/text/suite_table.h"
#include "report/text/what_if_table.h"
#include "validation/compare/suite.h"
#include "validation/published/measured_log.h"
#include "validation/published/ratios.h"
#include "validation/published/what_if.h"

namespace tandem {
namespace {

struct ValidateOptions {
  std::string input;
  std::vector<std::string> beside;  // logs: files with the plan, if the log does not state it
  std::vector<std::string> sets;
  std::string only;
  MeasureOptions suite;
  std::string engine = "ideal";  // cases and logs
  std::string family;            // cases
  int jobs = 0;
  bool what_if = false, ratios = false;  // cases
  std::string plot;
  std::string cluster;  // logs
  int gpus = 0;
  std::string csv;  // suites and cases
  std::string page;
  bool json = false;
  bool wide = false;
};

std::string stem_of(const ValidateOptions& options) {
  return std::filesystem::path(options.input).stem().string();
}

Status validate_suite(ValidateOptions options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  RETURN_IF_ERROR(
      check_files(options.input, options.sets, {{"--csv", options.csv}, {"--page", options.page}}));
  // The suite starts its ranks as processes of this same program.
  std::error_code ignored;
  options.suite.program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  Progress progress("runs", static_cast<std::int64_t>(scenarios.size()));
  ASSIGN_OR_RETURN(const std::vector<SuiteRow> rows,
                   run_suite(scenarios, options.suite, [&] { progress.advance(); }));
  if (!options.csv.empty()) RETURN_IF_ERROR(write_file(options.csv, suite_csv(rows)));
  if (!options.page.empty())
    RETURN_IF_ERROR(write_file(options.page,
                               suite_page(rows, stem_of(options), scenarios.front().report.note)));
  if (options.json) {
    auto array = nlohmann::ordered_json::array();
    for (const SuiteRow& row : rows) array.push_back(to_json(row));
    fmt::print(standard_output(), "{}", json_document(array));
  } else {
    fmt::print(standard_output(), "{}", suite_table(rows, text_width(options.wide)));
  }
  const auto failed =
      std::ranges::count_if(rows, [](const SuiteRow& row) { return !row.faults.empty(); });
  if (failed == 0) return Done{};
  return Error{
      fmt::format("found {} of {} runs that differ by more than they may", failed, rows.size()),
      Error::Failed};
}

// The kinds of input, by their letters in option_table.cpp.
constexpr char kCaseList = 'a', kSuiteFile = 'u', kLogFile = 'l';

// Returns the kind of the input. A log may have any name.
char kind_of(const std::string& path) {
  if (path.ends_with(".csv")) return kCaseList;
  if (path.ends_with(".toml")) return kSuiteFile;
  return path.ends_with(".log") || is_log_file(path) ? kLogFile : kSuiteFile;
}

Status validate_log(const ValidateOptions& options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const LogComparison comparison,
                   compare_log(options.input, {.beside = options.beside,
                                               .cluster = options.cluster,
                                               .gpus = options.gpus,
                                               .sets = sets,
                                               .engine = engine_of(options.engine)}));
  for (const std::string& warning : comparison.simulated.warnings) say("warning: " + warning);
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(comparison))
                          : log_table(comparison, text_width(options.wide)));
  return Done{};
}

// Compares pairs of cases, and prints a row a pair.
template <class Pair>
Status print_pairs(const ValidateOptions& options,
                   Result<std::vector<Pair>> (*compare)(const std::string&, Engine, int,
                                                        const Sets&),
                   nlohmann::ordered_json (*json)(const std::vector<Pair>&),
                   std::string (*table)(const std::vector<Pair>&, int)) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Pair> pairs, compare(options.input, engine_of(options.engine),
                                                          jobs_or_cores(options.jobs), sets));
  fmt::print(standard_output(), "{}",
             options.json ? json_document(json(pairs)) : table(pairs, text_width(options.wide)));
  return Done{};
}

Status validate_cases(const ValidateOptions& options) {
  if (options.what_if) return print_pairs(options, what_ifs, what_ifs_json, what_if_table);
  if (options.ratios) return print_pairs(options, machine_ratios, ratios_json, ratio_table);
  return predict_cases({.cases = options.input,
                        .sets = options.sets,
                        .only = options.only,
                        .family = options.family,
                        .engine = options.engine,
                        .jobs = options.jobs,
                        .plot = options.plot,
                        .csv = options.csv,
                        .page = options.page,
                        .json = options.json,
                        .wide = options.wide});
}

}  // namespace

void add_validate(const Command& app) {
  auto options = std::make_shared<ValidateOptions>();
  const Command command = app.subcommand("validate",
                                         "Simulates and measures the runs of a scenario, and "
                                         "holds one against the other; or simulates "
                                         "runs that others measured, in a list or in a log of "
                                         "Megatron-LM, torchtitan, NeMo, DeepSpeed or MLPerf.");
  command.option("input", &options->input, "SUITE.toml, CASES.csv or a log").required();
  command.option("beside", &options->beside,
                 "log: the script or configuration that it is of, and the model's config.json, "
                 "where the log has no arguments");
  add_sets(command, &options->sets, "the file's settings");
  command.option("--only", &options->only, "only runs whose name holds this text");
  command.option("--iterations", &options->suite.iterations, "that are measured, a run")
      .range(1, 1'000'000)
      .show_default();
  command
      .option("--timeout", &options->suite.timeout_s,
              "seconds in which some op must end, or a run has failed")
      .range(1e-6, 1e9)
      .show_default();
  command.option("--engine", &options->engine, "cases and logs: what simulates, ideal or simgrid")
      .one_of({"ideal", "simgrid"})
      .show_default();
  command.option("--family", &options->family, "cases: only the rows of this family");
  command.option("--jobs", &options->jobs, "cases: runs at once; default one a core")
      .at_least_one();
  command.flag("--what-if", &options->what_if,
               "cases: hold differences against each other: how much slower or faster rows of "
               "one source and model are that differ in what the column `changed` says");
  command.flag("--ratios", &options->ratios,
               "cases: hold machines against each other: how many times the tokens/s/GPU of one "
               "another reaches on the same model, sequence and precision");
  command.option("--plot", &options->plot,
                 "cases: draw predicted against measured, an SVG picture");
  command.option("--cluster", &options->cluster, "log: a preset, see tandem topology");
  command.option("--gpus", &options->gpus, "log: GPUs of the job; default what the log says")
      .range(1, 1'000'000);
  command.option("--csv", &options->csv, "write all numbers as CSV");
  command.option("--page", &options->page, "write the table as Markdown");
  command.flag("--json", &options->json,
               "print one JSON array, an object a run; of cases {rows, families, overall}; of a "
               "log one object");
  add_wide(command, &options->wide);
  command.footer(
      "Exit status 1: some run of a suite differs by more than [validate] allows.\n"
      "Example: tandem validate validation/bubble.toml --only 1f1b\n"
      "         tandem validate validation/published/cases.csv --family sc21-table1\n"
      "         tandem validate train.log --cluster dgx-h100\n"
      "         tandem validate train.log run.sh config.json --cluster dgx-h100");
  const auto run = [options]() -> Status {
    const char kind = kind_of(options->input);
    if (kind != kLogFile && !options->beside.empty())
      return Error{fmt::format("found {} beside {}, expected other files with a log only",
                               options->beside.front(), options->input)};
    if (kind == kLogFile) return validate_log(*options);
    return kind == kSuiteFile ? validate_suite(*options) : validate_cases(*options);
  };
  command.run(run, [options]() -> Result<CommandInput> {
    return CommandInput{options->input, {kind_of(options->input)}};
  });
}

}  // namespace tandem
