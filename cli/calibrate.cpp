// tandem calibrate device: measures how long the kernels and messages of a Program take on a
// device. Prints and writes a cost table, by which other runs can be priced.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/gpu_options.h"
#include "cli/command_line/text_width.h"
#include "exec/backends/backends.h"
#include "launch/launch.h"
#include "launch/standard_output.h"
#include "report/text/cost_report.h"
#include "schedule/program/program_text.h"
#include "validation/microbench/device_run.h"

namespace tandem {
namespace {

struct DeviceOptions {
  std::string program;
  std::string backend{backends().front().name};
  std::string output;
  double timeout_s = 60;
  GpuOptions gpu;
  ExecOptions exec;
  bool json = false;
  bool wide = false;
};

Status measure(DeviceOptions options) {
  const Backend& backend = *backend_named(options.backend);
  apply_gpu_options(options.gpu, &options.exec);
  options.exec.timeout_ns = to_ns(options.timeout_s);
  if (options.exec.precision.empty()) options.exec.precision = "bf16";
  RETURN_IF_ERROR(check_files(options.program, {}, {{"-o", options.output}}));
  if (options.program.ends_with(".toml"))
    return Error::at(options.program,
                     "found a scenario, expected a Program: tandem schedule --format program "
                     "writes one");
  ASSIGN_OR_RETURN(const Program program, read_program(options.program));
  ASSIGN_OR_RETURN(const bool ran_as_children,
                   start_ranks(backend, static_cast<int>(program.ranks.size()), options.exec));
  if (ran_as_children) return Done{};  // and rank 0 among them has printed
  const auto table = calibrate_device(program, backend, options.exec);
  if (!table.ok() && table.error().kind == Error::BadInput)
    return Error::at(options.program, table.error().text());
  if (!table.ok()) return table.error();
  if (!*table) return Done{};  // this is not rank 0, which alone prints
  if (!options.output.empty()) RETURN_IF_ERROR(write_file(options.output, to_text(**table)));
  fmt::print(standard_output(), "{}",
             options.json ? to_json(**table).dump(2) + "\n"
                          : cost_text(**table, text_width(options.wide)));
  return Done{};
}

Status run(const DeviceOptions& options) {
  const Status status = measure(options);
  if (status.ok() || !may_be_a_rank(options.backend)) return status;
  // All ranks have the same error. Rank 0 alone prints it and fails; the others end quietly.
  return rank_0_reports(status.error()) ? Done{} : status;
}

void add_device(const Command& calibrate) {
  auto options = std::make_shared<DeviceOptions>();
  const Command command = calibrate.subcommand(
      "device",
      "Measures a Program's matrix products, attention, memory-bound passes, whole kernels, "
      "transfers and collectives, with all ranks side by side.");
  ExecOptions& exec = options->exec;
  exec.iterations = 20;
  command.option("program", &options->program, "PROGRAM.csv").required();
  command
      .option("--backend", &options->backend,
              "host: this machine's cores, links as priced; " + backends_with_own_processes())
      .one_of(backend_names())
      .show_default();
  command.option("-o,--output", &options->output,
                 "write the table, for simulate --costs and a scenario's costs.table");
  command.option("--iterations", &exec.iterations, "that are measured, of all blocks")
      .range(1, 1'000'000)
      .show_default();
  command.option("--warmup", &exec.warmup, "iterations before them")
      .range(0, 1'000'000)
      .show_default();
  command
      .option("--gemm-scale", &exec.gemm_scale,
              "times the sides of the matrices; a table of other ones than the Program's "
              "prices nothing; default 1")
      .range(1e-6, 1e3);
  add_gpu_options(command, &options->gpu);
  add_precision_option(command, &options->gpu);
  command.option("--timeout", &options->timeout_s, "seconds in which some op must end")
      .range(1e-6, 1e9)
      .show_default();
  command.option("--seed", &exec.seed, "of payloads and matrices").show_default();
  command.flag("--json", &options->json, "print one JSON object, and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem schedule job.toml --format program > job.csv\n"
      "         tandem calibrate device job.csv --backend cuda --share-gpu -o costs.csv");
  command.run([options] { return run(*options); });
}

}  // namespace

void add_calibrate(const Command& app) {
  const Command command =
      app.subcommand("calibrate", "Measures what the simulator's costs can be taken from.");
  command.require_subcommand();
  command.footer("Example: tandem calibrate device job.csv -o costs.csv");
  add_device(command);
  add_calibrate_comm(command);
  add_calibrate_run(command);
}

}  // namespace tandem
