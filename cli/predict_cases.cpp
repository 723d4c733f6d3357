#include "cli/predict_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "launch/standard_output.h"
#include "report/page/case_page.h"
#include "report/page/case_plot.h"
#include "report/text/case_table.h"
#include "validation/published/baseline_tools.h"
#include "validation/published/cases.h"

namespace tandem {
namespace {

// Returns the cases whose id holds `only`, of one family or of all.
Result<std::vector<Case>> chosen_cases(const CaseOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Case> all, read_cases(options.cases));
  std::vector<Case> cases;
  std::vector<std::string> families;
  for (const Case& run : all) {
    families.push_back(run.family);
    if (!options.family.empty() && run.family != options.family) continue;
    if (run.id.find(options.only) != std::string::npos) cases.push_back(run);
  }
  if (std::ranges::find(families, options.family) == families.end() && !options.family.empty())
    return Error{fmt::format("--family: found {}, expected a family of {}; the nearest is '{}'",
                             options.family, options.cases, nearest(options.family, families))};
  if (cases.empty())
    return Error{fmt::format("--only: found no row whose id holds '{}' in {}{}", options.only,
                             options.cases,
                             options.family.empty() ? "" : ", family " + options.family)};
  return cases;
}

std::string cases_stem(const CaseOptions& options) {
  return std::filesystem::path(options.cases).stem().string();
}

// Returns the text of --update's file with tables of these rows. Without --update it is empty. The
// tables are between lines that name maker_of(): "./dev accuracy" or "./dev accuracy of CASES".
Result<std::string> accuracy_page(const CaseOptions& options, const std::vector<CaseRow>& rows,
                                  const std::vector<BaselineTool>& rivals) {
  if (options.update.empty()) return std::string();
  ASSIGN_OR_RETURN(const std::string page, read_file(options.update));
  return updated_page(page, options.update, rows, rivals, maker_of(page, cases_stem(options)));
}

Status write_cases(const CaseOptions& options, const std::vector<CaseRow>& rows,
                   const std::vector<BaselineTool>& rivals) {
  ASSIGN_OR_RETURN(const std::string page, accuracy_page(options, rows, rivals));
  if (!options.csv.empty()) RETURN_IF_ERROR(write_file(options.csv, case_csv(rows)));
  if (!options.page.empty())
    RETURN_IF_ERROR(write_file(options.page, case_page(rows, rivals, cases_stem(options))));
  if (!options.plot.empty()) RETURN_IF_ERROR(write_file(options.plot, case_plot(rows)));
  if (!options.update.empty()) RETURN_IF_ERROR(write_file(options.update, page));
  return Done{};
}

}  // namespace

Status predict_cases(const CaseOptions& options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Case> cases, chosen_cases(options));
  std::vector<BaselineTool> rivals;
  if (!options.rivals.empty()) {
    ASSIGN_OR_RETURN(rivals, read_rivals(options.rivals));
  }
  RETURN_IF_ERROR(check_files(options.cases, options.sets,
                              {{"--csv", options.csv},
                               {"--page", options.page},
                               {"--plot", options.plot},
                               {"--update", options.update}},
                              {{"--rivals", options.rivals}}));
  const auto page = accuracy_page(options, {}, rivals);  // reports faults of the page in advance
  if (!page.ok()) return page.error();
  const int jobs = jobs_or_cores(options.jobs);
  const Engine engine = engine_of(options.engine);
  ASSIGN_OR_RETURN(const std::vector<CaseRow> rows, predict(cases, engine, jobs, sets));
  const bool all_fail =
      std::ranges::none_of(rows, [](const CaseRow& row) { return row.prediction.has_value(); });
  if (all_fail && !sets.empty()) return Error{rows.front().reason};  // --set is at fault
  RETURN_IF_ERROR(write_cases(options, rows, rivals));
  fmt::print(
      standard_output(), "{}",
      options.json ? json_document(cases_json(rows)) : case_table(rows, text_width(options.wide)));
  return Done{};
}

}  // namespace tandem
