// tandem run: runs one run of a scenario, or a Program, for real: on cores, over MPI, or on GPUs.
// On a backend whose ranks are processes, this process starts them and waits, or is one of them;
// rank 0 alone prints.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/gpu_options.h"
#include "cli/command_line/text_width.h"
#include "exec/backends/backends.h"
#include "launch/launch.h"
#include "launch/standard_output.h"
#include "planning/choose/resolve.h"
#include "planning/real/real_run.h"
#include "planning/simulate/simulate.h"
#include "report/text/table.h"
#include "schedule/program/program_text.h"
#include "traces/profile/kineto_writer.h"

namespace tandem {
namespace {

struct RunOptions {
  std::string input;
  std::string backend{backends().front().name};
  std::string compute = "timed";
  std::string payload = "sample";
  std::vector<std::string> sets;
  std::string only;
  double timeout_s = 60;
  GpuOptions gpu;
  RealOptions real;
  bool json = false;
  bool wide = false;
};

Result<Scenario> load_only_run(const RunOptions& options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  if (scenarios.size() > 1)
    return Error::at(
        options.input,
        fmt::format("found {} runs such as '{}' and '{}', expected one: choose it with --only",
                    scenarios.size(), scenarios[0].name, scenarios[1].name));
  return std::move(scenarios.front());
}

// Checks the options, and that the output files can be written, before the run.
Status check_options_of_run(const RunOptions& options) {
  const OutputFiles& files = options.real.files;
  RETURN_IF_ERROR(check_kineto_folder(files.kineto));
  return check_files(
      options.input, options.sets,
      {{"--trace", files.trace_csv}, {"--perfetto", files.perfetto}, {"--plot", files.svg}});
}

// Plays the run. Returns nothing in processes that do not print: those that have started the ranks,
// and ranks other than 0.
Result<std::optional<RealRunResult>> play(const RunOptions& options) {
  RETURN_IF_ERROR(check_options_of_run(options));
  const Backend& backend = *options.real.backend;
  const ExecOptions& exec = options.real.exec;
  if (options.input.ends_with(".csv")) {
    ASSIGN_OR_RETURN(const Program program, read_program(options.input));
    ASSIGN_OR_RETURN(const bool played,
                     start_ranks(backend, static_cast<int>(program.ranks.size()), exec));
    if (played) return std::optional<RealRunResult>();
    return run_for_real(program, options.real, options.input);
  }
  std::optional<Waiting> waiting("making the program");
  ASSIGN_OR_RETURN(const Scenario given, load_only_run(options));
  ASSIGN_OR_RETURN(const Scenario scenario, resolved(given));
  ASSIGN_OR_RETURN(const CompiledJob job, compile(scenario));
  waiting.reset();  // its thread must end before ranks are forked
  ASSIGN_OR_RETURN(const bool played,
                   start_ranks(backend, static_cast<int>(job.program.ranks.size()), exec));
  if (played) return std::optional<RealRunResult>();
  return run_for_real(scenario, job, options.real);
}

std::string op_table(const std::vector<OpTimes>& op_times, int width) {
  using Row = const OpTimes&;
  const auto ms = [](double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); };
  const std::vector<Column<OpTimes>> columns = {
      {"kind", [](Row t) { return std::string(op_kind_name(t.kind)); }, Place::Name},
      {"stage", [](Row t) { return t.stage < 0 ? "-" : fmt::format("{}", t.stage); }},
      {"count", [](Row t) { return fmt::format("{}", t.count); }},
      {"p5 ms", [=](Row t) { return ms(t.seconds.p5); }},
      {"p50 ms", [=](Row t) { return ms(t.seconds.p50); }},
      {"p95 ms", [=](Row t) { return ms(t.seconds.p95); }}};
  return text_table(columns, op_times, width);
}

// Returns "2 cores, a load of 0.31 before; 95 % of 420 wake-ups were at most 0.012 ms late, ..."
std::string host_conditions_text(const HostConditions& host) {
  std::string text = fmt::format("{} core{}, a load of {:.2f} before", host.cores,
                                 host.cores == 1 ? "" : "s", host.load);
  if (host.late.ops > 0)
    text += fmt::format("; 95 % of {} wake-ups were at most {:.3f} ms late, all together {:.2f} %",
                        host.late.ops, 1e3 * to_seconds(host.late.p95_ns), 1e2 * host.late.share);
  if (host.unreliable()) text += ": unreliable, times may be too long by as much";
  return text + ".\n";
}

void print(const RealRunResult& real, bool json, int width) {
  for (const std::string& warning : real.result.warnings) say("warning: " + warning);
  if (json) {
    const auto array = nlohmann::ordered_json::array({to_json(real)});
    fmt::print(standard_output(), "{}", json_document(array));
    return;
  }
  fmt::print(standard_output(), "{}\n", run_table({real.result}, false, width));
  if (const std::string text = explanatory_notes(std::vector{real.result}); !text.empty())
    fmt::print(standard_output(), "{}\n", wrapped(text, width));
  if (!real.op_times.empty()) fmt::print(standard_output(), "{}\n", op_table(real.op_times, width));
  fmt::print(standard_output(), "{}", wrapped(host_conditions_text(real.host), width));
  const std::string line = fmt::format(
      "{}: {}. Of {} iterations (p5, p50, p95): {:.3f}, {:.3f}, {:.3f} ms; bubble {:.2f}, {:.2f}, "
      "{:.2f} %. {} payloads checked.\n",
      real.backend, real.real, real.iterations, 1e3 * real.spread.iteration_s.p5,
      1e3 * real.spread.iteration_s.p50, 1e3 * real.spread.iteration_s.p95,
      1e2 * real.spread.bubble_fraction.p5, 1e2 * real.spread.bubble_fraction.p50,
      1e2 * real.spread.bubble_fraction.p95, real.payloads_checked);
  fmt::print(standard_output(), "{}", wrapped(line, width));
}

Status run(RunOptions options) {
  options.real.backend = backend_named(options.backend);
  ExecOptions& exec = options.real.exec;
  exec.compute = options.compute == "gemm" ? Compute::Gemm : Compute::Timed;
  exec.full_payload = options.payload == "full";
  exec.timeout_ns = to_ns(options.timeout_s);
  apply_gpu_options(options.gpu, &exec);
  const auto real = play(options);
  if (!real.ok()) {
    if (may_be_a_rank(options.backend) && rank_0_reports(real.error())) return Done{};
    return real.error();
  }
  if (*real) print(**real, options.json, text_width(options.wide));
  return Done{};
}

void add_exec_options(const Command& command, RunOptions* options) {
  ExecOptions& exec = options->real.exec;
  const Backend& host = backends().front();
  command
      .option("--backend", &options->backend,
              fmt::format("{}: {}; {}", host.name, host.ranks_are, backends_with_own_processes()))
      .one_of(backend_names())
      .show_default();
  command
      .option("--compute", &options->compute,
              "timed: an op takes its priced time; gemm: it multiplies its matrices, on a core or "
              "a GPU")
      .one_of({"timed", "gemm"})
      .show_default();
  command.option("--gemm-scale", &exec.gemm_scale, "times the sides of the matrices; default 1")
      .range(1e-6, 1e3);
  command
      .option("--payload", &options->payload,
              "of a message: sample, a few KiB, or full; filled, moved and checked: full "
              "lengthens transfers, by that")
      .one_of({"sample", "full"})
      .show_default();
  command.option("--iterations", &exec.iterations, "that are measured")
      .range(1, 1'000'000)
      .show_default();
  command.option("--warmup", &exec.warmup, "iterations before them")
      .range(0, 1'000'000)
      .show_default();
  command
      .option("--timeout", &options->timeout_s,
              "seconds in which some op must end, or the run has failed; timed ops on the "
              "host always do")
      .range(1e-6, 1e9)
      .show_default();
  command.option("--seed", &exec.seed, "of payloads and matrices").show_default();
  add_gpu_options(command, &options->gpu);
  add_precision_option(command, &options->gpu);
}

}  // namespace

void add_run(const Command& app) {
  auto options = std::make_shared<RunOptions>();
  const Command command =
      app.subcommand("run", "Runs one run of a scenario (TOML), or a Program (CSV), for real.");
  command.option("input", &options->input, "SCENARIO.toml or PROGRAM.csv").required();
  add_exec_options(command, options.get());
  add_sets(command, &options->sets, "the file's settings");
  command.option("--only", &options->only, "the run whose name holds this text");
  OutputFiles& files = options->real.files;
  command.option("--trace", &files.trace_csv,
                 "write the median iteration's trace as CSV; of a run that fails what there "
                 "is");
  command.option("--perfetto", &files.perfetto,
                 "write it for https://ui.perfetto.dev (Open trace file)");
  command.option("--kineto", &files.kineto,
                 "write it into this folder as profiles of torch.profiler, a file a rank: for "
                 "Holistic Trace Analysis, TensorBoard, Perfetto");
  command.option("--plot", &files.svg, "draw its timeline as SVG");
  command.flag("--json", &options->json, "print one JSON array of one object, and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem run bench/pp64.toml --set parallel.pp=4 --set parallel.global_batch=8\n"
      "         tandem run scenarios/megatron-sc21.toml --only '1.7B, selene' --set cluster.gpus=2 "
      "--set parallel.pp=2 --set parallel.dp=1 --set parallel.global_batch=64 --compute gemm "
      "--gemm-scale 0.03");
  command.run([options] { return run(*options); },
              [options] { return scenario_or_program(options->input); });
}

}  // namespace tandem
