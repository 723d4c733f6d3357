// tandem compare: compares a simulated trace with a measured one, or a simulation with a profile of
// a real run (cli/profile/compare_profile.h).
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "cli/profile/compare_profile.h"
#include "launch/standard_output.h"
#include "report/page/html_page.h"
#include "report/text/comparison_table.h"
#include "results/run_detail.h"
#include "traces/trace_files.h"
#include "validation/compare/compare.h"
#include "validation/compare/compare_files.h"

namespace tandem {
namespace {

Status write_report(const CompareOptions& options, const TraceTable& simulated,
                    const TraceTable& measured, const Comparison& comparison) {
  const auto file = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  return write_html_page(
      {.title = compared_title(file(options.simulated), file(options.measured)),
       .runs = {{"simulated", {}, detail_of(simulated)}, {"measured", {}, detail_of(measured)}},
       .comparison = to_json(comparison)},
      options.report);
}

// Returns the input with the letter of its kind in option_table.cpp. Error: nothing was measured.
Result<CommandInput> input_of(const CompareOptions& options) {
  constexpr const char* kLetters[] = {"t", "s", "p", "r", "f"};  // of each ComparedKind
  const ComparedKind kind = compared_kind(options.simulated, options.measured);
  if (kind == ComparedKind::TwoTraces)
    RETURN_IF_ERROR(check_readable(options.measured, "a measured trace (CSV), or profiles"));
  return CommandInput{options.measured, kLetters[static_cast<std::size_t>(kind)]};
}

Status run(const CompareOptions& options) {
  RETURN_IF_ERROR(check_files(options.simulated, options.sets,
                              {{"--perfetto", options.perfetto}, {"--report", options.report}},
                              {{"the measured input", options.measured}}));
  RETURN_IF_ERROR(check_html_page(options.report));
  if (compared_kind(options.simulated, options.measured) != ComparedKind::TwoTraces)
    return compare_profile(options);
  // The measured input goes first: if it is no trace, the other may well be none.
  ASSIGN_OR_RETURN(const TraceTable measured, read_trace_csv(options.measured));
  ASSIGN_OR_RETURN(const TraceTable simulated, read_trace_csv(options.simulated));
  ASSIGN_OR_RETURN(const Comparison comparison, compare(simulated, measured, options.worst));
  if (!options.perfetto.empty())
    RETURN_IF_ERROR(write_perfetto_pair(simulated, measured, options.perfetto));
  if (!options.report.empty())
    RETURN_IF_ERROR(write_report(options, simulated, measured, comparison));
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(comparison))
                          : comparison_table(comparison, text_width(options.wide)));
  return Done{};
}

}  // namespace

void add_compare(const Command& app) {
  auto options = std::make_shared<CompareOptions>();
  const Command command =
      app.subcommand("compare",
                     "Holds a simulated trace against a measured one of the same Program, or a "
                     "simulation against a profile of a real run.");
  command
      .option("simulated", &options->simulated,
              "SIMULATED.csv: simulate --unfolded --trace; against a profile also SCENARIO.toml, "
              "PROGRAM.csv, or a folder of simulate --kineto")
      .required();
  command
      .option("measured", &options->measured,
              "MEASURED.csv, or profiles: *.json, *.json.gz of torch.profiler, SQLite of nsys "
              "export, a folder of them")
      .required();
  command
      .option("--set", &options->sets,
              "against a profile: KEY=VALUE over the scenario's settings; repeatable")
      .one_value_each();
  command.option("--only", &options->only,
                 "against a profile: the scenario's run whose name holds this text");
  add_engine(command, &options->engine,
             "against a profile: simgrid (default) or ideal plays the scenario");
  command.option(
      "--only-passes", &options->passes,
      "against a profile: of the simulation these passes alone, such as 6F3,1B1, as "
      "tandem schedule writes them, and the communication that begins and ends meanwhile");
  command.option("--perfetto", &options->perfetto,
                 "write both timelines for https://ui.perfetto.dev (Open trace file)");
  command.option("--report", &options->report,
                 "write a page to open in a browser, offline: both timelines aligned, and "
                 "what differs");
  command.option("--worst", &options->worst, "so many ops that differ most; default 10")
      .not_negative();
  command.flag("--json", &options->json, "print one JSON object and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem compare simulated.csv measured.csv --perfetto both.json\n"
      "         tandem compare job.toml profiles/ --report both.html");
  command.run([options] { return run(*options); }, [options] { return input_of(*options); });
}

}  // namespace tandem
