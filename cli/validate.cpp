// tandem validate: the runs of a suite, simulated and measured, or what others measured, simulated;
// held against each other.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/predict_cases.h"
#include "cli/text_width.h"
#include "report/text/suite_table.h"
#include "validation/compare/suite.h"

namespace tandem {
namespace {

struct ValidateOptions {
  std::string input;
  std::vector<std::string> sets;
  std::string only;
  MeasureOptions suite;
  std::string engine = "ideal";  // the rest for cases
  std::string family;
  int jobs = 0;
  std::string plot;
  std::string csv;  // of both
  std::string page;
  bool json = false;
  bool wide = false;
};

std::string stem_of(const ValidateOptions& options) {
  return std::filesystem::path(options.input).stem().string();
}

Status run_measured(ValidateOptions options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  RETURN_IF_ERROR(check_timeout(options.suite.timeout_s));
  RETURN_IF_ERROR(
      check_files(options.input, options.sets, {{"--csv", options.csv}, {"--page", options.page}}));
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
    fmt::print("{}\n", array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", suite_table(rows, text_width(options.wide)));
  }
  const auto failed =
      std::ranges::count_if(rows, [](const SuiteRow& row) { return !row.faults.empty(); });
  if (failed == 0) return Done{};
  return Error{
      fmt::format("found {} of {} runs that differ by more than they may", failed, rows.size()),
      Error::Failed};
}

}  // namespace

void add_validate(const Command& app) {
  auto options = std::make_shared<ValidateOptions>();
  const Command command = app.subcommand("validate",
                                         "Simulates and measures the runs of a scenario, and "
                                         "holds one against the other; or simulates "
                                         "runs that others measured.");
  command.option("input", &options->input, "SUITE.toml or CASES.csv").required();
  command.option("--set", &options->sets, "KEY=VALUE over the file's settings; repeatable")
      .one_value_each();
  command.option("--only", &options->only, "only runs whose name holds this text");
  std::vector<Option> of_suites, of_cases;
  of_suites.push_back(
      command.option("--iterations", &options->suite.iterations, "that are measured, a run")
          .range(1, 1'000'000)
          .show_default());
  of_suites.push_back(command
                          .option("--timeout", &options->suite.timeout_s,
                                  "seconds in which some op must end, or a run has failed")
                          .range(1e-6, 1e9)
                          .show_default());
  of_cases.push_back(
      command.option("--engine", &options->engine, "cases: what simulates, ideal or simgrid")
          .one_of({"ideal", "simgrid"})
          .show_default());
  of_cases.push_back(
      command.option("--family", &options->family, "cases: only the rows of this family"));
  of_cases.push_back(
      command.option("--jobs", &options->jobs, "cases: runs at once; default one a core")
          .at_least_one());
  of_cases.push_back(command.option("--plot", &options->plot,
                                    "cases: draw predicted against measured, an SVG picture"));
  command.option("--csv", &options->csv, "write all numbers as CSV");
  command.option("--page", &options->page, "write the table as Markdown");
  command.flag("--json", &options->json,
               "print one JSON array, an object a run; of cases {rows, families, overall}");
  add_wide(command, &options->wide);
  command.footer(
      "Exit status 1: some run of a suite differs by more than [validate] allows.\n"
      "Example: tandem validate validation/bubble.toml --only 1f1b\n"
      "         tandem validate validation/published/cases.csv --family sc21-table1");
  command.run([=]() -> Status {
    const bool is_cases = options->input.ends_with(".csv");
    for (const Option other : is_cases ? of_suites : of_cases) {
      if (other.given())
        return Error::at(options->input,
                         fmt::format("found {}, expected it with {} only", other.name(),
                                     is_cases ? "a SUITE.toml" : "a CASES.csv"));
    }
    if (!is_cases) return run_measured(*options);
    return predict_cases({.cases = options->input,
                          .sets = options->sets,
                          .only = options->only,
                          .family = options->family,
                          .engine = options->engine,
                          .jobs = options->jobs,
                          .plot = options->plot,
                          .csv = options->csv,
                          .page = options->page,
                          .json = options->json,
                          .wide = options->wide});
  });
}

}  // namespace tandem
