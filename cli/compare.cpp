// tandem compare: a simulated trace held against a measured one.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/text_width.h"
#include "report/page/html_page.h"
#include "report/text/comparison_table.h"
#include "scenarios/run/run_detail.h"
#include "traces/trace_files.h"
#include "validation/compare/compare.h"

namespace tandem {
namespace {

struct CompareOptions {
  std::string simulated;
  std::string measured;
  std::string perfetto;
  std::string report;
  std::size_t worst = 10;
  bool json = false;
  bool wide = false;
};

Status write_report(const CompareOptions& options, const TraceTable& simulated,
                    const TraceTable& measured, const Comparison& comparison) {
  const auto file = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  return write_html_page(
      {.title = file(options.simulated) + " and " + file(options.measured),
       .runs = {{"simulated", {}, detail_of(simulated)}, {"measured", {}, detail_of(measured)}},
       .comparison = to_json(comparison)},
      options.report);
}

Status run(const CompareOptions& options) {
  RETURN_IF_ERROR(check_files(options.simulated, {},
                              {{"--perfetto", options.perfetto}, {"--report", options.report}},
                              {{"the measured input", options.measured}}));
  RETURN_IF_ERROR(check_html_page(options.report));
  ASSIGN_OR_RETURN(const TraceTable simulated, read_trace_csv(options.simulated));
  ASSIGN_OR_RETURN(const TraceTable measured, read_trace_csv(options.measured));
  ASSIGN_OR_RETURN(const Comparison comparison, compare(simulated, measured, options.worst));
  if (!options.perfetto.empty())
    RETURN_IF_ERROR(write_perfetto(simulated, measured, options.perfetto));
  if (!options.report.empty())
    RETURN_IF_ERROR(write_report(options, simulated, measured, comparison));
  if (options.json) {
    fmt::print("{}\n",
               to_json(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", comparison_table(comparison, text_width(options.wide)));
  }
  return Done{};
}

}  // namespace

void add_compare(const Command& app) {
  auto options = std::make_shared<CompareOptions>();
  const Command command = app.subcommand(
      "compare", "Holds a simulated trace against a measured one of the same Program.");
  command.option("simulated", &options->simulated, "SIMULATED.csv: simulate --unfolded --trace")
      .required();
  command.option("measured", &options->measured, "MEASURED.csv").required();
  command.option("--perfetto", &options->perfetto,
                 "write both timelines for https://ui.perfetto.dev (Open trace file)");
  command.option("--report", &options->report,
                 "write a page to open in a browser, offline: both timelines aligned, and "
                 "what differs");
  command.option("--worst", &options->worst, "so many ops that differ most; default 10")
      .not_negative();
  command.flag("--json", &options->json, "print one JSON object and nothing else");
  add_wide(command, &options->wide);
  command.footer("Example: tandem compare simulated.csv measured.csv --perfetto both.json");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
