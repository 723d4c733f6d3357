// tandem-fit comparisons: predicts ratios between machines, and changes of one setting, and writes
// the errors as the tables of a page.
#include <memory>

#include "base/file.h"
#include "cli/command_line/command_line.h"
#include "cli/command_line/files.h"
#include "cli/fit/fit_commands.h"
#include "report/page/page_parts.h"
#include "report/text/what_if_table.h"

namespace tandem {
namespace {

struct ComparisonOptions {
  std::string cases, changes, page;
  int jobs = 0;
};

// Returns the page with both tables.
Result<std::string> updated(const std::string& path, const std::vector<MachineRatio>& ratios,
                            const std::vector<WhatIf>& changes) {
  ASSIGN_OR_RETURN(const std::string page, read_file(path));
  return with_parts(page, path, "tandem-fit comparisons",
                    {{"machines", ratio_page(ratios)}, {"changes", what_if_page(changes)}});
}

Status run(const ComparisonOptions& options) {
  const auto before = updated(options.page, {}, {});  // reports faults of the page in advance
  if (!before.ok()) return before.error();
  const int jobs = jobs_or_cores(options.jobs);
  ASSIGN_OR_RETURN(const auto ratios, machine_ratios(options.cases, Engine::Ideal, jobs));
  ASSIGN_OR_RETURN(const auto changes, what_ifs(options.changes, Engine::Ideal, jobs));
  ASSIGN_OR_RETURN(const std::string page, updated(options.page, ratios, changes));
  return write_file(options.page, page);
}

}  // namespace

void add_comparisons(const Command& app) {
  auto options = std::make_shared<ComparisonOptions>();
  const Command command = app.subcommand(
      "comparisons",
      "Writes how well ratios between machines, and changes of one thing, are predicted.");
  command.option("cases", &options->cases, "CASES.csv, as of validate --ratios").required();
  command.option("changes", &options->changes, "CHANGES.csv, as of validate --what-if").required();
  command.option("page", &options->page, "PAGE.md: takes the tables between its marks").required();
  command.option("--jobs", &options->jobs, "runs at once; default one a core").at_least_one();
  command.footer(
      "Example: tandem-fit comparisons validation/published/cases.csv "
      "validation/published/changes.csv docs/accuracy.md");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
