// tandem-fit calibrated: tells how much better the runs of a site are predicted after tandem
// calibrate run on one of them. Each family of published runs is left out of the fit in turn: one
// of its runs calibrates, the others are predicted.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/data_dir.h"
#include "base/file.h"
#include "base/parallel/progress.h"
#include "cli/command_line/command_line.h"
#include "cli/command_line/files.h"
#include "cli/fit/fit_commands.h"
#include "launch/standard_output.h"
#include "report/page/page_parts.h"
#include "validation/calibrate/calibration_check.h"
#include "validation/published/profile_text.h"

namespace tandem {
namespace {

struct CalibratedOptions {
  std::string cases;
  // Beginnings of families' names: those with the same one are left out together.
  std::vector<std::string> families = {"vtrain-multi", "mpt-",        "bridge-", "jz-a100",
                                       "simumax-",     "torchtitan-", "v51-",    "v60-"};
  std::string update;
  int jobs = 0;
  bool write = false;
};

// Returns the text of workload/calibrated_run.toml with the interval of this check.
std::string interval_text(std::string text, const CalibrationCheck& check) {
  const auto source = [](const char* quantile) {
    return fmt::format("{} of runs of cases.csv, predicted as calibrated on one other", quantile);
  };
  text = with_value(std::move(text), "low", check.interval.first, source("5 %"));
  return with_value(std::move(text), "high", check.interval.second, source("95 %"));
}

Status run(const CalibratedOptions& options) {
  if (options.write && options.families.size() < 2)
    return Error{"found --write with one --families, expected the interval of several"};
  ASSIGN_OR_RETURN(const std::vector<Case> cases, read_cases(options.cases));
  RETURN_IF_ERROR(check_files(options.cases, {}, {{"--update", options.update}}));
  ASSIGN_OR_RETURN(FitPlan plan, read_fit_plan(data_dir() + "/validation/published"));
  ASSIGN_OR_RETURN(FitData data, fit_data(cases, std::move(plan), jobs_or_cores(options.jobs)));
  std::optional<Progress> bar;  // a new one for each pass over the runs
  const auto on_run = [&](int done, int of) {
    if (done == 1) bar.emplace("runs", of);
    bar->advance();
    if (done == of) bar.reset();
  };
  data.on_row = on_run;
  ASSIGN_OR_RETURN(const Values values, current_values(data.plan));
  ASSIGN_OR_RETURN(const CalibrationCheck check,
                   check_calibration(data, values, options.families, on_run));
  const std::string table = calibration_table(check);
  fmt::print(standard_output(), "{}", table);
  if (!options.update.empty()) {
    ASSIGN_OR_RETURN(const std::string page, read_file(options.update));
    ASSIGN_OR_RETURN(const std::string updated,
                     with_parts(page, options.update, "tandem-fit calibrated",
                                {{"calibrated on one run", table}}));
    RETURN_IF_ERROR(write_file(options.update, updated));
  }
  if (!options.write) return Done{};
  const std::string path = data_dir() + "/workload/calibrated_run.toml";
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  return write_file(path, interval_text(text, check));
}

}  // namespace

void add_calibrated(const Command& app) {
  auto options = std::make_shared<CalibratedOptions>();
  const Command command = app.subcommand(
      "calibrated",
      "Says how near a site's runs are predicted before and after its software is calibrated on "
      "one of them: families of runs that others measured are left out of the fit, and judge.");
  command.option("cases", &options->cases, "CASES.csv").required();
  command
      .option("--families", &options->families,
              "how the names of families begin that are left out together; repeatable")
      .one_value_each();
  command.flag("--write", &options->write,
               "write the interval of calibrated runs to workload/calibrated_run.toml");
  command.option("--update", &options->update, "PAGE.md: write the table between its marks");
  command.option("--jobs", &options->jobs, "runs at once; default one a core").at_least_one();
  command.footer(
      "Example: tandem-fit calibrated validation/published/cases.csv --families jz-a100");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
