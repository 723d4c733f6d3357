#include "cli/profile/compare_profile.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/text_width.h"
#include "cli/profile/profile_side.h"
#include "launch/standard_output.h"
#include "report/page/html_page.h"
#include "report/text/profile_comparison_table.h"
#include "traces/profile/read_profile.h"
#include "validation/compare/compare_files.h"

namespace tandem {

Status compare_profile(const CompareOptions& options) {
  std::optional<Waiting> waiting("reading the profile");
  ASSIGN_OR_RETURN(Profile measured, read_profile({options.measured}));
  waiting.reset();
  ProfiledFiles files{.simulated = options.simulated,
                      .measured = options.measured,
                      .engine = engine_of(options.engine),
                      .passes = options.passes};
  std::optional<Scenario> scenario;
  if (compared_kind(options.simulated, options.measured) == ComparedKind::Scenario) {
    ASSIGN_OR_RETURN(scenario, load_resolved(options.simulated, options.sets, options.only));
    files.scenario = &*scenario;
  }
  ASSIGN_OR_RETURN(const ComparedProfiles compared, compare_files(files, std::move(measured)));
  const ProfileComparison& comparison = compared.comparison;
  if (!comparison.another_job.empty()) say("warning: " + comparison.notes.front());  // says why
  if (!options.report.empty()) {
    const auto file = [](const std::string& path) {
      return std::filesystem::path(path).lexically_normal().filename().string();
    };
    RETURN_IF_ERROR(write_html_page(
        {.title = compared_title(file(options.simulated), file(options.measured)),
         .runs = {{"simulated", {}, detail_of_side(comparison.simulated, compared.simulated)},
                  {"measured", {}, detail_of_side(comparison.measured, compared.measured)}},
         .comparison = to_json(comparison)},
        options.report));
  }
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(comparison))
                          : profile_comparison_table(comparison, text_width(options.wide)));
  return Done{};
}

}  // namespace tandem
