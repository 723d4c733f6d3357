// tandem explain: why a measured run is slower than its simulation.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "cli/profile/profile_sides.h"
#include "launch/standard_output.h"
#include "planning/choose/resolve.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "report/page/html_page.h"
#include "report/text/number_cells.h"
#include "report/text/text_table.h"
#include "traces/profile/read_profile.h"
#include "validation/compare/profile_comparison.h"
#include "validation/explain/explain.h"
#include "validation/explain/explain_log.h"
#include "validation/published/measured_log.h"

namespace tandem {
namespace {

struct ExplainOptions {
  std::string scenario;
  std::vector<std::string> inputs;  // profiles, a log
  std::vector<std::string> sets;
  std::string only;
  std::string engine;
  std::string report;
  bool json = false;
  bool wide = false;
};

struct ExplainedRow {
  std::string what;
  double seconds = 0;
  bool is_total = false;
};

std::vector<ExplainedRow> rows_of(const Explanation& e) {
  std::vector<ExplainedRow> rows = {{"simulated iteration", e.simulated_s, true}};
  for (const Cause& cause : e.causes) rows.push_back({cause.what, cause.alone_s});
  if (e.smaller_s != 0) rows.push_back({"smaller causes, together", e.smaller_s});
  if (e.interactions_s != 0)
    rows.push_back({"interactions: all causes together, less each alone", e.interactions_s});
  if (e.not_explained_s != 0) rows.push_back({"not explained", e.not_explained_s});
  rows.push_back({"measured iteration", e.measured_s, true});
  return rows;
}

// Returns a row a cause, from the simulated iteration to the measured one, and a line on each
// cause's evidence and on what to do.
std::string explain_table(const Explanation& e, int width) {
  using Of = const ExplainedRow&;
  const std::vector<Column<ExplainedRow>> columns = {
      {"", [](Of row) { return row.what; }, Place::Name},
      {"s",
       [](Of row) {
         return row.is_total ? fmt::format("{:.4f}", row.seconds)
                             : fmt::format("{:+.4f}", row.seconds);
       },
       Place::First},
      {"% of the measured",
       [&](Of row) {
         const double share = row.seconds / e.measured_s;
         return row.is_total ? percent(share) : signed_percent(share);
       },
       Place::First}};
  std::string text = text_table(columns, rows_of(e), width);
  if (e.causes.empty())
    text += "\nNo cause makes half a percent of the iteration.\n";
  else
    text += '\n';
  for (const Cause& cause : e.causes)
    text += wrapped(
        fmt::format("{}. Evidence: {}. To do: {}.\n", cause.what, cause.evidence, cause.advice),
        width);
  for (const std::string& note : e.notes) text += wrapped('\n' + note + '\n', width);
  return text;
}

// The simulated side, as a profile, and both sides compared.
struct BothSides {
  SimulatedSide simulated;
  ProfileComparison comparison;
};

// Error: the profile is of another job.
Result<BothSides> both_sides(const PlayedJob& played, const Profile& measured,
                             const ExplainOptions& options) {
  BothSides both{.simulated = played_side(played.job.program, played.trace, measured,
                                          engine_name(engine_of(options.engine))),
                 .comparison = {}};
  ASSIGN_OR_RETURN(ComparedSide ours,
                   side_of(both.simulated.profile, options.scenario, both.simulated.by));
  ours.world = both.simulated.world;
  const ProfileRank& first = measured.ranks.front();
  ASSIGN_OR_RETURN(ComparedSide theirs, side_of(measured, first.path, first.profiler));
  both.comparison = compare_profiles(std::move(ours), std::move(theirs), true);
  if (both.comparison.another_job.empty()) return both;
  return Error::at(first.path,
                   fmt::format("found another job than {} ({}), expected a profile of it",
                               options.scenario, both.comparison.another_job));
}

// Writes the page; `both`: of profiles, whose timelines it then has.
Status write_report(const ExplainOptions& options, const Explanation& explanation,
                    const BothSides* both = nullptr, const Profile* measured = nullptr) {
  if (options.report.empty()) return Done{};
  const auto file = [](const std::string& path) {
    return std::filesystem::path(path).lexically_normal().filename().string();
  };
  PageData page{.title = fmt::format("Why does {} take longer than {} says?",
                                     file(options.inputs.front()), file(options.scenario)),
                .explanation = to_json(explanation)};
  if (both != nullptr) {
    const ProfileComparison& comparison = both->comparison;
    page.runs = {{"simulated", {}, detail_of_side(comparison.simulated, both->simulated.profile)},
                 {"measured", {}, detail_of_side(comparison.measured, *measured)}};
    page.comparison = to_json(comparison);
  }
  return write_html_page(page, options.report);
}

Result<Explanation> log_explained(const std::string& log, const Scenario& scenario,
                                  const ExplainOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, read_file(log));
  ASSIGN_OR_RETURN(const RunResult result, simulate(scenario, engine_of(options.engine)));
  SimulatedIteration simulated{.seconds = result.iteration_s, .interval_s = result.interval_s};
  if (result.training)
    simulated.tokens_per_gpu = result.training->tokens_per_s_per_gpu * result.iteration_s;
  simulated.samples = static_cast<double>(scenario.job.plan.global_batch);
  return explain_log(log, text, simulated);
}

Result<Explanation> profiles_explained(const std::vector<std::string>& files,
                                       const Scenario& scenario, const ExplainOptions& options) {
  std::optional<Waiting> waiting("reading the profile");
  ASSIGN_OR_RETURN(const Profile measured, read_profile(files));
  waiting.reset();
  ASSIGN_OR_RETURN(const PlayedJob played, play_once(scenario, engine_of(options.engine)));
  ASSIGN_OR_RETURN(const BothSides both, both_sides(played, measured, options));
  ASSIGN_OR_RETURN(const Explanation explanation,
                   explain(played.job.program, played.trace, measured));
  RETURN_IF_ERROR(write_report(options, explanation, &both, &measured));
  return explanation;
}

Result<Explanation> explained(const Scenario& scenario, const ExplainOptions& options) {
  std::vector<std::string> logs, profiles;
  for (const std::string& input : options.inputs)
    (!may_be_profile(input) && is_log_file(input) ? logs : profiles).push_back(input);
  if (logs.size() > 1)
    return Error::at(logs[1], fmt::format("found a second log beside {}, expected one", logs[0]));
  if (logs.empty()) return profiles_explained(profiles, scenario, options);
  ASSIGN_OR_RETURN(const Explanation of_log, log_explained(logs[0], scenario, options));
  if (profiles.empty()) {
    RETURN_IF_ERROR(write_report(options, of_log));
    return of_log;
  }
  ASSIGN_OR_RETURN(Explanation explanation, profiles_explained(profiles, scenario, options));
  explanation.notes.push_back(fmt::format("{}: an iteration takes {:.4g} s in the mean of {}.",
                                          logs[0], of_log.measured_s, of_log.steps));
  for (const Cause& cause : of_log.causes)
    explanation.notes.push_back(fmt::format("{}: {}, {:.4g} s of an iteration: {}.", logs[0],
                                            cause.what, cause.alone_s, cause.evidence));
  return explanation;
}

Status run(const ExplainOptions& options) {
  std::vector<NamedFile> inputs;
  for (const std::string& file : options.inputs) inputs.push_back({"the measured input", file});
  RETURN_IF_ERROR(check_files(options.scenario, options.sets, {{"--report", options.report}},
                              std::move(inputs)));
  RETURN_IF_ERROR(check_html_page(options.report));
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.scenario, sets, options.only));
  ASSIGN_OR_RETURN(const Scenario given, only_run(scenarios, options.scenario, "--only"));
  ASSIGN_OR_RETURN(const Scenario scenario, resolved(given));
  ASSIGN_OR_RETURN(const Explanation explanation, explained(scenario, options));
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(explanation))
                          : explain_table(explanation, text_width(options.wide)));
  if (explanation.is_explained()) return Done{};
  return Error{fmt::format("{:.1f} % of the measured iteration is not explained, expected at most "
                           "{:g} %",
                           100 * explanation.not_explained_s / explanation.measured_s,
                           100 * kMostUnexplained),
               Error::Failed};
}

}  // namespace

void add_explain(const Command& app) {
  auto options = std::make_shared<ExplainOptions>();
  const Command command = app.subcommand(
      "explain",
      "Says why a measured run takes longer than its simulation, in causes with seconds: slower "
      "kernels, stages, ranks and collectives, overlap that fails, waiting for data or the host.");
  command.option("scenario", &options->scenario, "SCENARIO.toml of the job that was profiled")
      .required();
  command
      .option(
          "measured", &options->inputs,
          "profiles: *.json or *.json.gz of torch.profiler, SQLite of nsys export, or folders of "
          "them, a file a rank, of some ranks or all; or a log of Megatron-LM, torchtitan, NeMo, "
          "DeepSpeed or MLPerf")
      .required();
  command.option("--set", &options->sets, "KEY=VALUE over the scenario's settings; repeatable")
      .one_value_each();
  command.option("--only", &options->only, "the scenario's run whose name holds this text");
  command.option("--engine", &options->engine, "simgrid (default) or ideal plays the scenario")
      .one_of({"ideal", "simgrid"});
  command.option("--report", &options->report,
                 "write a page: the causes, the measured ranks, both timelines (HTML)");
  command.flag("--json", &options->json, "print one JSON object and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Exit status: 0 if all but 2 % of the measured iteration is explained, else 1.\n"
      "Example: tandem explain job.toml profiles/\n"
      "         tandem explain job.toml train.log");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
