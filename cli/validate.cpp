// tandem validate: the runs of a suite, simulated and measured, held against each other.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "report/suite_table.h"
#include "validation/suite.h"

namespace tandem {
namespace {

struct ValidateOptions {
  std::string input;
  std::vector<std::string> sets;
  std::string only;
  MeasureOptions suite;
  std::string csv;
  std::string page;
  bool json = false;
};

Status run(ValidateOptions options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  RETURN_IF_ERROR(check_timeout(options.suite.timeout_s));
  for (const std::string& path : {options.csv, options.page}) RETURN_IF_ERROR(check_writable(path));
  std::error_code ignored;
  options.suite.program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  Progress progress("runs", static_cast<std::int64_t>(scenarios.size()));
  ASSIGN_OR_RETURN(const std::vector<SuiteRow> rows,
                   run_suite(scenarios, options.suite, [&] { progress.advance(); }));
  const std::string title = std::filesystem::path(options.input).stem().string();
  if (!options.csv.empty()) RETURN_IF_ERROR(write_file(options.csv, suite_csv(rows)));
  if (!options.page.empty())
    RETURN_IF_ERROR(write_file(options.page, suite_page(rows, title, scenarios.front().note)));
  if (options.json) {
    auto array = nlohmann::ordered_json::array();
    for (const SuiteRow& row : rows) array.push_back(to_json(row));
    fmt::print("{}\n", array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", suite_table(rows));
  }
  const auto failed =
      std::ranges::count_if(rows, [](const SuiteRow& row) { return !row.faults.empty(); });
  if (failed == 0) return Done{};
  return Error{
      fmt::format("found {} of {} runs that differ by more than they may", failed, rows.size()),
      Error::Failed};
}

}  // namespace

void add_validate(CLI::App* app, Command* chosen) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app->add_subcommand(
      "validate",
      "Simulates and measures the runs of a scenario, and holds one against the other.");
  command->add_option("input", options->input, "SUITE.toml")->required();
  command->add_option("--set", options->sets, "KEY=VALUE over the file's settings; repeatable")
      ->allow_extra_args(false);
  command->add_option("--only", options->only, "only runs whose name holds this text");
  command->add_option("--iterations", options->suite.iterations, "that are measured, a run")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--timeout", options->suite.timeout_s,
                   "seconds in which some op must end, or a run has failed")
      ->check(CLI::Range(1e-6, 1e9))
      ->capture_default_str();
  command->add_option("--csv", options->csv, "write all numbers as CSV");
  command->add_option("--page", options->page, "write the table as Markdown");
  command->add_flag("--json", options->json, "print one JSON array, an object a run");
  command->footer(
      "Exit status 1: some run differs by more than [validate] allows.\n"
      "Example: tandem validate validation/bubble.toml --only 1f1b");
  command->callback([options, chosen] { *chosen = [options] { return run(*options); }; });
}

}  // namespace tandem
