// tandem explain: lists the causes, in seconds, for which a measured run is slower than its
// simulation.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "cli/profile/profile_side.h"
#include "launch/standard_output.h"
#include "report/page/html_page.h"
#include "report/text/number_cells.h"
#include "report/text/text_table.h"
#include "validation/explain/explain_files.h"

namespace tandem {
namespace {

struct ExplainOptions {
  std::string scenario;
  std::vector<std::string> inputs;  // profiles, a log
  std::vector<std::string> sets;
  std::string only;
  std::string passes;
  std::string engine;
  std::string report;
  bool json = false;
  bool wide = false;
};

struct ExplainedRow {
  std::string cause;
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

// Returns a row for each cause, from the simulated iteration to the measured one, and a line with
// each cause's evidence and advice.
std::string explain_table(const Explanation& e, int width) {
  using Row = const ExplainedRow&;
  const std::vector<Column<ExplainedRow>> columns = {
      {"", [](Row row) { return row.cause; }, Place::Name},
      {"s",
       [](Row row) {
         return row.is_total ? fmt::format("{:.4f}", row.seconds)
                             : fmt::format("{:+.4f}", row.seconds);
       },
       Place::First},
      {"% of the measured",
       [&](Row row) {
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

Status write_report(const ExplainOptions& options, const ExplainedFiles& explained) {
  if (options.report.empty()) return Done{};
  const std::string job =
      std::filesystem::path(options.scenario).lexically_normal().filename().string();
  PageData page{.title = fmt::format("Why is the measured run of {} slower than simulated?", job),
                .explanation = to_json(explained.explanation)};
  const ProfileComparison& comparison = explained.comparison;
  if (!explained.measured.ranks.empty()) {
    page.runs = {{"simulated", {}, detail_of_side(comparison.simulated, explained.simulated)},
                 {"measured", {}, detail_of_side(comparison.measured, explained.measured)}};
    page.comparison = to_json(comparison);
  }
  return write_html_page(page, options.report);
}

Status run(const ExplainOptions& options) {
  std::vector<NamedFile> inputs;
  for (const std::string& file : options.inputs) inputs.push_back({"the measured input", file});
  RETURN_IF_ERROR(check_files(options.scenario, options.sets, {{"--report", options.report}},
                              std::move(inputs)));
  RETURN_IF_ERROR(check_html_page(options.report));
  ASSIGN_OR_RETURN(const Scenario scenario,
                   load_resolved(options.scenario, options.sets, options.only));
  std::optional<Waiting> waiting("reading what was measured");
  ASSIGN_OR_RETURN(
      const ExplainedFiles explained,
      explain_files(scenario, options.inputs, engine_of(options.engine), options.passes));
  waiting.reset();
  RETURN_IF_ERROR(write_report(options, explained));
  const Explanation& explanation = explained.explanation;
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
  add_sets(command, &options->sets, "the scenario's settings");
  command.option("--only", &options->only, "the scenario's run whose name holds this text");
  add_engine(command, &options->engine, "simgrid (default) or ideal plays the scenario");
  command.option("--only-passes", &options->passes,
                 "the profile has these passes alone, such as 6F3,1B1: compared part by part");
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
