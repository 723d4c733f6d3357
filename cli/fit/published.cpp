// tandem-fit published: fits the constants of workload/frameworks to runs that others measured.
// CASES.csv lists these by families, for example the runs of one publication. Prints the changes of
// the constants, and a cross-validation: how fits without some of the runs (a family, a GPU, every
// other configuration) predict those.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/data_dir.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/parallel/progress.h"
#include "base/split.h"
#include "cli/command_line/command_line.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "cli/fit/fit_commands.h"
#include "launch/standard_output.h"
#include "report/page/page_parts.h"
#include "report/text/fit_table.h"
#include "validation/published/profile_text.h"
#include "validation/published/published_checks.h"

namespace tandem {
namespace {

struct PublishedOptions {
  std::string cases;
  std::string folder;
  std::vector<std::string> together;
  std::string update;
  int steps = 6;
  int jobs = 0;
  bool check = true;
  bool write = false;
  bool wide = false;
};

// Splits each "a+b" into families, which the cross-validation leaves out together.
std::vector<std::vector<std::string>> groups_of(const std::vector<std::string>& texts) {
  std::vector<std::vector<std::string>> groups;
  for (const std::string& text : texts) {
    // A "+" is added so that "a+" reads as "a" and "", which is no family's name and is refused.
    groups.push_back(split(text + "+", "+"));
  }
  return groups;
}

Status check_families(const std::vector<std::vector<std::string>>& groups, const FitData& data) {
  const std::vector<std::string> known = families_of(data);
  for (const std::vector<std::string>& group : groups) {
    for (const std::string& family : group) {
      if (std::ranges::find(known, family) == known.end())
        return Error{
            fmt::format("--together: found the family '{}', expected one that is fitted; "
                        "the nearest is '{}'",
                        family, nearest(family, known))};
    }
  }
  return Done{};
}

// Returns the page with the tables of these checks; nothing if the path is empty.
Result<std::string> updated(const std::string& path, const Checks& checks) {
  if (path.empty()) return std::string();
  ASSIGN_OR_RETURN(const std::string page, read_file(path));
  const std::vector<PagePart> parts = {
      {"leave a family out", left_out_table(checks.families, "without it")},
      {"halves", left_out_table(checks.halves, "with the other half")},
      {"leave a GPU out", left_out_table(checks.gpus, "without it")},
      {"leave a kind out", left_out_table(checks.kinds, "without it")},
      {"unmeasured", unmeasured_table(checks.unmeasured)},
      {"what stands behind a prediction", ground_table(checks.grounds)},
      {"intervals", interval_table(checks.intervals)}};
  return with_parts(page, path, "tandem-fit published", parts);
}

Status run(const PublishedOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Case> cases, read_cases(options.cases));
  const std::string folder =
      options.folder.empty() ? data_dir() + "/validation/published" : options.folder;
  ASSIGN_OR_RETURN(FitPlan plan, read_fit_plan(folder));
  RETURN_IF_ERROR(check_files(options.cases, {}, {{"--update", options.update}},
                              {{"--plan's constants.csv", folder + "/constants.csv"},
                               {"--plan's weights.csv", folder + "/weights.csv"}}));
  const auto page = updated(options.update, {});  // reports faults of the page in advance
  if (!page.ok()) return page.error();
  const int jobs = jobs_or_cores(options.jobs);
  ASSIGN_OR_RETURN(FitData data, fit_data(cases, std::move(plan), jobs));
  const auto groups = groups_of(options.together);
  RETURN_IF_ERROR(check_families(groups, data));
  std::optional<Progress> bar;  // a new one for each pass over the rows
  data.on_row = [&](int done, int of) {
    if (done == 1) bar.emplace("runs", of);
    bar->advance();
    if (done == of) bar.reset();
  };
  ASSIGN_OR_RETURN(const Values start, current_values(data.plan));
  const Rows rows = thinned(data, all_rows(data));  // no family counts beyond its weight
  fmt::print(stderr, "{} constants, {} of {} rows\n", start.size(), rows.size(), data.cases.size());
  ASSIGN_OR_RETURN(PublishedFit done,
                   fit(data, rows, start, options.steps, [](int step, double cost) {
                     fmt::print(stderr, "step {}: cost {:.2f}\n", step, cost);
                   }));
  for (double& value : done.values) value = rounded(value);
  fmt::print(standard_output(), "{}",
             moved_table(data.plan, start, done, text_width(options.wide)));
  Checks checks;
  if (options.check) {
    ASSIGN_OR_RETURN(checks, check_fit(data, done, groups));
    fmt::print(standard_output(), "\n{}\n{}\n{}\n{}\n{}\n{}\n{}", ground_table(checks.grounds),
               left_out_table(checks.halves, "with the other half"),
               left_out_table(checks.families, "without it"),
               left_out_table(checks.gpus, "without it"),
               left_out_table(checks.kinds, "without it"), unmeasured_table(checks.unmeasured),
               interval_table(checks.intervals));
  }
  ASSIGN_OR_RETURN(const std::string new_page, updated(options.update, checks));
  if (!options.update.empty()) RETURN_IF_ERROR(write_file(options.update, new_page));
  if (!options.write) return Done{};
  const std::string origin = std::filesystem::path(options.cases).filename().string();
  return write_fit(data.plan, done, checks, origin);
}

}  // namespace

void add_published(const Command& app) {
  auto options = std::make_shared<PublishedOptions>();
  const Command command = app.subcommand("published",
                                         "Fits the constants of workload/frameworks to runs "
                                         "that others measured, prints what moved, "
                                         "and how a fit to some of the runs predicts the others.");
  command.option("cases", &options->cases, "CASES.csv").required();
  command.option("--plan", &options->folder,
                 "folder of constants.csv (what is fitted, and what is believed of it) and "
                 "weights.csv (how noisy a family is); default validation/published");
  command.option("--steps", &options->steps, "of Gauss-Newton at most; 0: none, checks alone")
      .range(0, 100)
      .show_default();
  command
      .option("--together", &options->together,
              "A+B: families that are also left out together; repeatable")
      .one_value_each();
  command.flag("!--no-check", &options->check,
               "do not refit without halves and families of the runs; no intervals then");
  command.flag("--write", &options->write,
               "write the constants and intervals to the files of workload/frameworks");
  command.option("--update", &options->update,
                 "PAGE.md: write the checks between its marks, as docs/accuracy.md has them");
  command.option("--jobs", &options->jobs, "runs at once; default one a core").at_least_one();
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem-fit published validation/published/cases.csv --write "
      "--update docs/accuracy.md");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
