// tandem export: writes a Program as other simulators' files.
#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "interop/chakra/chakra_file.h"
#include "launch/standard_output.h"
#include "planning/choose/resolve.h"
#include "report/text/text_table.h"
#include "schedule/chakra/export_chakra.h"
#include "schedule/program/program_text.h"

namespace tandem {
namespace {

struct ExportOptions {
  std::string input, only, chakra;
  std::vector<std::string> sets;
};

Result<Program> program_of(const ExportOptions& options) {
  if (options.input.ends_with(".csv")) return read_program(options.input);
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  const Waiting waiting("making the program");
  ASSIGN_OR_RETURN(const Scenario scenario, resolved(scenarios.front()));
  ASSIGN_OR_RETURN(CompiledJob job, compile(scenario));
  return std::move(job.program);
}

struct Written {
  std::size_t nodes = 0, bytes = 0;  // in all files of ranks
};

// Writes the file of the groups, then a file a rank. If one fails, the files before it are removed.
Result<Written> write_job(const ChakraExport& made, const ChakraJob& job, int ranks) {
  std::vector<std::string> paths;
  const auto write = [&](const std::string& path, const std::string& bytes) {
    const Status status = write_file(path, bytes);
    if (!status.ok()) {
      std::error_code ignored;
      for (const std::string& before : paths) std::filesystem::remove(before, ignored);
    }
    paths.push_back(path);
    return status;
  };
  RETURN_IF_ERROR(write(job.groups_path, groups_json(job.groups)));
  Written written;
  Progress progress("ranks", ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const ChakraTrace trace = made.rank(Rank{rank});
    const std::string bytes = encode_chakra(trace);
    RETURN_IF_ERROR(write(job.path(rank), bytes));
    written.nodes += trace.nodes.size();
    written.bytes += bytes.size();
    progress.advance();
  }
  return written;
}

Status run_export(const ExportOptions& options) {
  ChakraJob job{.prefix = options.chakra};
  job.groups_path = options.chakra + ".groups.json";
  RETURN_IF_ERROR(check_files(options.input, options.sets,
                              {{"--chakra", job.path(0)}, {"--chakra", job.groups_path}}));
  ASSIGN_OR_RETURN(const Program program, program_of(options));
  const auto ranks = static_cast<int>(program.ranks.size());
  if (std::filesystem::exists(job.path(ranks)))
    return Error::at(job.path(ranks),
                     fmt::format("found a trace of another job, expected none beyond rank {}: its "
                                 "readers would take it for one of this job",
                                 ranks - 1));
  ASSIGN_OR_RETURN(const ChakraExport made, ChakraExport::of(program));
  job.groups = made.groups();
  ASSIGN_OR_RETURN(const Written written, write_job(made, job, ranks));
  const std::string files =
      ranks == 1 ? job.path(0) : fmt::format("{}.{{0..{}}}.et", options.chakra, ranks - 1);
  fmt::print(standard_output(), "{}: {} nodes, {} bytes\n{}: {} process groups\n", files,
             written.nodes, written.bytes, job.groups_path, job.groups.size());
  const std::vector<std::string> lost = made.lost();
  if (!lost.empty()) fmt::print(standard_output(), "\nWhat ASTRA-sim cannot say of it:\n");
  for (const std::string& line : lost)
    fmt::print(standard_output(), "{}\n", wrapped("- " + line + '.', text_width(false)));
  return Done{};
}

}  // namespace

void add_export(const Command& app) {
  auto options = std::make_shared<ExportOptions>();
  const Command command = app.subcommand(
      "export",
      "Writes a Program for other simulators: Chakra execution traces, one a rank, for ASTRA-sim.");
  command.option("input", &options->input, "SCENARIO.toml (its first run) or PROGRAM.csv")
      .required();
  command
      .option("--chakra", &options->chakra,
              "PREFIX: writes PREFIX.0.et, one for each rank, and PREFIX.groups.json, the process "
              "groups (--comm-group-configuration)")
      .required();
  add_sets(command, &options->sets, "the scenario's settings");
  command.option("--only", &options->only, "the scenario's first run whose name holds this");
  command.footer("Example: tandem export scenarios/megatron-sc21.toml --only 39B --chakra 39B");
  command.run([options]() -> Status { return run_export(*options); },
              [options] { return scenario_or_program(options->input); });
}

}  // namespace tandem
