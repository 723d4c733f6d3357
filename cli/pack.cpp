// tandem pack: compares iterations over sequences of many lengths, packed into bins of tokens or
// padded to a fixed length.
#include "planning/pack/pack.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/text_width.h"
#include "launch/standard_output.h"
#include "report/text/pack_table.h"
#include "report/text/table.h"

namespace tandem {
namespace {

struct PackCommand {
  std::string input, lengths;
  int tokens = 0;
  int batches = 8;
  std::string engine = "simgrid";
  std::vector<std::string> sets;
  std::string only;
  bool json = false;
  bool wide = false;
};

Status run_pack(const PackCommand& options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  ASSIGN_OR_RETURN(const Scenario scenario, only_run(scenarios, options.input));
  ASSIGN_OR_RETURN(const PackStudy study, pack(scenario, options.lengths,
                                               {.tokens = options.tokens,
                                                .batches = options.batches,
                                                .jobs = jobs_or_cores(0),
                                                .engine = engine_of(options.engine)}));
  const std::optional<bool> calibrated = scenario.costs.calibrated;
  if (options.json) {
    nlohmann::ordered_json json = to_json(study);
    json["calibrated"] = calibrated ? nlohmann::ordered_json(*calibrated) : nullptr;
    fmt::print(standard_output(), "{}", json_document(json));
  } else {
    const int width = text_width(options.wide);
    fmt::print(standard_output(), "{}", pack_text(study, width));
    if (is_guess(calibrated))
      fmt::print(standard_output(), "{}",
                 wrapped(uncalibrated_line(scenario.costs.model_name), width));
  }
  return Done{};
}

}  // namespace

void add_pack(const Command& app) {
  auto options = std::make_shared<PackCommand>();
  const Command command = app.subcommand(
      "pack",
      "Packs sequences of many lengths into bins of a bounded number of tokens, one a microbatch, "
      "and plays a scenario's plan so: against every sequence padded to model.seq, and against "
      "each microbatch padded to its longest sequence.");
  command.option("input", &options->input, "SCENARIO.toml").required();
  command
      .option("lengths", &options->lengths,
              "LENGTHS.csv: a column 'length', the tokens of each sequence in its order")
      .required();
  command.option("--tokens", &options->tokens, "most tokens of a bin").required().at_least_one();
  command
      .option("--batches", &options->batches,
              "iterations to play, evenly spread over the file; default 8")
      .range(1, 1000000);
  add_engine(command, &options->engine, "what plays them: simgrid (default) or ideal");
  add_sets(command, &options->sets, "the file's settings");
  command.option("--only", &options->only, "the run whose name holds this text");
  command.flag("--json", &options->json, "print one JSON document, and nothing else");
  add_wide(command, &options->wide);
  command.footer("Example: tandem pack scenarios/packing.toml scenarios/lengths.csv --tokens 8192");
  command.run([options]() -> Status { return run_pack(*options); });
}

}  // namespace tandem
