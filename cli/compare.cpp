// tandem compare: a simulated trace held against a measured one.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "report/comparison_table.h"
#include "traces/trace_files.h"
#include "validation/compare.h"

namespace tandem {
namespace {

struct CompareOptions {
  std::string simulated;
  std::string measured;
  std::string perfetto;
  std::size_t worst = 10;
  bool json = false;
};

Status run(const CompareOptions& options) {
  ASSIGN_OR_RETURN(const TraceTable simulated, read_trace_csv(options.simulated));
  ASSIGN_OR_RETURN(const TraceTable measured, read_trace_csv(options.measured));
  ASSIGN_OR_RETURN(const Comparison comparison, compare(simulated, measured, options.worst));
  if (!options.perfetto.empty())
    RETURN_IF_ERROR(write_perfetto(simulated, measured, options.perfetto));
  if (options.json) {
    fmt::print("{}\n",
               to_json(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", comparison_table(comparison));
  }
  return Done{};
}

}  // namespace

void add_compare(CLI::App* app, Command* chosen) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app->add_subcommand(
      "compare", "Holds a simulated trace against a measured one of the same Program.");
  command->add_option("simulated", options->simulated, "SIMULATED.csv: simulate --unfolded --trace")
      ->required();
  command->add_option("measured", options->measured, "MEASURED.csv")->required();
  command->add_option("--perfetto", options->perfetto,
                      "write both timelines for https://ui.perfetto.dev (Open trace file)");
  command->add_option("--worst", options->worst, "so many ops that differ most; default 10")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "print one JSON object and nothing else");
  command->footer("Example: tandem compare simulated.csv measured.csv --perfetto both.json");
  command->callback([options, chosen] { *chosen = [options] { return run(*options); }; });
}

}  // namespace tandem
