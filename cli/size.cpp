// tandem size: compares machines that could be bought or rented for a training.
#include "planning/size/size.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "job/doubts.h"
#include "launch/standard_output.h"
#include "report/page/html_page.h"
#include "report/page/plan_page.h"
#include "report/text/size_table.h"

namespace tandem {
namespace {

struct SizeCommand {
  std::string input;
  std::string engine = "simgrid";
  std::vector<std::string> sets, among;
  std::string only;
  int jobs = 0;
  std::string report;
  bool json = false;
  bool wide = false;

  Engine plays() const { return engine_of(engine); }
};

// Writes the page. The plans of the recommended machine are simulated again, for their timelines.
Status write_report(const SizeCommand& options, const SizeResult& result) {
  if (options.report.empty()) return Done{};
  PageData page = size_page(
      "What to buy or rent for " + std::filesystem::path(options.input).stem().string() + "?",
      result);
  std::vector<std::size_t> jobs;
  if (const auto best = result.recommended()) jobs = result.machines[*best].jobs;
  for (const std::size_t job : jobs) {
    const SizedJob& sized = result.sized[job];
    ASSIGN_OR_RETURN(
        const RunResult again,
        simulate_all({planned(sized)}, options.plays(), 1, {.detail = Detail::Timeline}).front());
    page.runs.push_back(size_run(sized, again.detail));
  }
  return write_html_page(page, options.report);
}

Status run_size(const SizeCommand& options) {
  RETURN_IF_ERROR(check_files(options.input, options.sets, {{"--report", options.report}}));
  RETURN_IF_ERROR(check_html_page(options.report));
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  RETURN_IF_ERROR(Space::among(options.among));
  ASSIGN_OR_RETURN(const std::vector<SizeCase> cases,
                   load_size_cases(options.input, sets, options.only));
  std::set<std::string> doubts;  // cases share theirs
  for (const SizeCase& each : cases) {
    for (const std::string& doubt : doubts_of_any_plan(each.scenario)) {
      if (doubts.insert(doubt).second) say("warning: " + doubt);
    }
  }
  ASSIGN_OR_RETURN(
      const SizeResult result,
      size(cases, options.among, {.jobs = jobs_or_cores(options.jobs), .engine = options.plays()}));
  RETURN_IF_ERROR(write_report(options, result));
  fmt::print(
      standard_output(), "{}",
      options.json ? json_document(to_json(result)) : size_text(result, text_width(options.wide)));
  if (!result.recommended())
    return Error{std::string("nothing is in time and within the limits") +
                     (result.nearest ? "; the nearest is printed" : ""),
                 Error::Failed};
  return Done{};
}

}  // namespace

void add_size(const Command& app) {
  auto options = std::make_shared<SizeCommand>();
  const Command command = app.subcommand(
      "size",
      "Sizes a purchase: each run of the file is a candidate (GPU, node, network, price). For each "
      "it finds the least nodes that meet the deadline, and the best use of the budget; plans are "
      "tuned, and days, cost and energy of the trainings follow, failures included. The cheapest "
      "in time is recommended. Exit status 1: none is in time and within the limits.");
  command.option("input", &options->input, "SCENARIO.toml with [size] and [price]").required();
  add_sets(command, &options->sets, "the file's settings");
  command.option("--only", &options->only, "only runs whose name holds this text");
  command
      .option("--among", &options->among,
              "KEY=VALUE,VALUE: plans to choose among, as tandem tune has it; default the "
              "usual ones (docs/planning.md)")
      .one_value_each();
  add_engine(command, &options->engine, "what plays them: simgrid (default) or ideal");
  command.option("--jobs", &options->jobs, "simulations at once; default one a core")
      .at_least_one();
  command.option(
      "--report", &options->report,
      "write a page to open in a browser, offline, or to print on two sheets: what to buy, "
      "days and price of all, what moves it, and the timelines of what is recommended");
  command.flag("--json", &options->json, "print one JSON document, and nothing else");
  add_wide(command, &options->wide);
  command.footer("Example: tandem size scenarios/procurement.toml --only 70B");
  command.run([options]() -> Status { return run_size(*options); });
}

}  // namespace tandem
