// Plays a Program on a backend that takes real time (GPUs, or CPUs that stand for them). Takes the
// iteration of median length as the result, and notes conditions that make the measurement
// doubtful.
#include "planning/real/real_run.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/check.h"
#include "launch/clock.h"
#include "planning/simulate/simulate.h"
#include "results/result_fields.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

// Plays all iterations of the program. If the run fails, writes its partial trace and returns the
// reason as an Error. Errors of bad input name `place`. Returns nothing on ranks that do not
// report.
Result<std::optional<Execution>> play_whole(const Program& program, const RealOptions& options,
                                            const std::string& place) {
  auto played = execute(program, *options.backend, options.exec);
  if (!played.ok() && played.error().kind == Error::BadInput)
    return Error::at(place, played.error().text());
  if (!played.ok()) return played.error();
  std::optional<Execution>& execution = *played;
  if (!execution || execution->failure.empty()) return played;
  std::string failure = execution->failure;
  if (!execution->iterations.empty()) {
    std::vector<std::string> warnings;
    const Status written = write_files(program, &execution->iterations.back(),
                                       {.trace_csv = options.files.trace_csv}, &warnings);
    if (!written.ok()) failure += "; " + written.error().text();
  }
  return Error{failure, Error::Failed};
}

// Returns the host's cores and load before the run.
HostConditions host_before() {
  HostConditions host;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) host.cores = CPU_COUNT(&allowed);
  if (getloadavg(&host.load, 1) != 1) host.load = 0;
  return host;
}

// Returns how long compute ops took, by kind and stage, over all ranks and iterations.
std::vector<OpTimes> op_times(const Program& program, const std::vector<Trace>& iterations) {
  std::map<std::pair<OpKind, int>, std::vector<double>> seconds;  // by kind and stage
  for (const Trace& trace : iterations) {
    for (const RankTrace& rank : trace.ranks) {
      const std::vector<Op>& ops = program.bodies[rank.body].ops;
      const auto events = trace.events_of(program, rank);
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (is_compute(ops[i].kind) && ops[i].duration_ns > 0)
          seconds[{ops[i].kind, ops[i].stage}].push_back(
              to_seconds(events[i].end_ns - events[i].start_ns));
      }
    }
  }
  std::vector<OpTimes> list;
  for (auto& [key, values] : seconds) {
    const auto count = static_cast<std::int64_t>(values.size());
    list.push_back({key.first, key.second, count, spread_of(std::move(values))});
  }
  return list;
}

// Plays the program and summarizes its iterations. `result_of_trace` returns the RunResult of one
// iteration.
template <class ResultOfTrace>
Result<std::optional<RealRunResult>> run_program(const Program& program, const RealOptions& options,
                                                 const std::string& place,
                                                 ResultOfTrace result_of_trace) {
  HostConditions host = host_before();
  const Nanoseconds begin = now_ns();
  ASSIGN_OR_RETURN(std::optional<Execution> execution, play_whole(program, options, place));
  const double wall_s = to_seconds(now_ns() - begin);
  if (!execution) return std::optional<RealRunResult>();
  std::vector<double> iterations_s, bubble_fractions;
  for (const Trace& trace : execution->iterations) {
    const Metrics metrics = measure(program, trace);
    if (metrics.iteration_s == 0)
      return Error::at(place, "found an iteration that takes no time, expected ops that do");
    iterations_s.push_back(metrics.iteration_s);
    bubble_fractions.push_back(metrics.bubble_fraction);
  }
  RealRunResult real;
  Trace& median = execution->iterations[median_of(iterations_s)];
  real.result = result_of_trace(median);
  real.result.engine = real.backend = execution->backend;
  real.result.engine_wall_s = wall_s;
  real.real = execution->real;
  real.iterations = static_cast<int>(execution->iterations.size());
  real.spread.iteration_s = spread_of(iterations_s);
  real.spread.bubble_fraction = spread_of(bubble_fractions);
  real.payloads_checked = execution->payloads_checked;
  real.shares_queues = execution->shares_queues;
  host.late = execution->late;
  real.host = host;
  if (options.exec.compute == Compute::Gemm)
    real.op_times = op_times(program, execution->iterations);
  RETURN_IF_ERROR(write_files(program, &median, options.files, &real.result.warnings));
  return std::optional(std::move(real));
}

}  // namespace

Result<std::optional<RealRunResult>> run_for_real(const Scenario& scenario, const CompiledJob& job,
                                                  RealOptions options) {
  if (options.exec.precision.empty()) options.exec.precision = job.plan.precision;
  ReductionTypes& reductions = options.exec.reductions;
  if (reductions.gradients.empty()) reductions.gradients = job.plan.gradient_dtype;
  const std::string& precision = job.plan.precision;
  reductions.others = precision == "fp32" || precision == "fp16" ? precision : "bf16";
  auto real = run_program(
      job.program, options, scenario.place_of({"costs.source"}), [&](const Trace& trace) {
        RunResult result = result_of(scenario, job, trace);
        if (options.exec.compute == Compute::Gemm && options.exec.gemm_scale != 1) {
          result.training.reset();  // the matrices have other FLOPs than the scenario's model
          result.published_tflops_per_gpu.reset();
        }
        return result;
      });
  const std::pair<const char*, bool> simulated_only[] = {
      {"jitter", scenario.variability.jitter > 0},
      {"slow_link", !scenario.variability.slow_link.name.empty()}};
  for (const auto& [key, is_set] : simulated_only) {
    if (real.ok() && *real && is_set)
      (*real)->result.warnings.push_back(fmt::format(
          "{}: variability.{} is simulated only: a real run has its own", scenario.name, key));
  }
  return real;
}

Result<std::optional<RealRunResult>> run_for_real(const Program& program,
                                                  const RealOptions& options,
                                                  const std::string& path) {
  return run_program(program, options, path,
                     [&](const Trace& trace) { return result_of(program, trace); });
}

template <>
FieldTable<RunSpread> make_fields() {
  return {field("iteration_s", &RunSpread::iteration_s),
          field("bubble_fraction", &RunSpread::bubble_fraction)};
}

// Fields with nullptr are written to JSON and not read back.
template <>
FieldTable<HostConditions> make_fields() {
  using Host = HostConditions;
  const auto late = [](auto get) {
    return
        [=](const Host& o) { return o.late.ops == 0 ? std::nullopt : std::optional(get(o.late)); };
  };
  return {field("cores", &Host::cores, "", "for this process"),
          field("load", &Host::load, "", "of the minute before"),
          field_value<Host>(
              "late_p95_s", late([](const LateWakeUps& o) { return to_seconds(o.p95_ns); }),
              nullptr, "", "how late ops ended because nobody had a core for them; null on GPUs"),
          field_value<Host>("late_share", late([](const LateWakeUps& o) { return o.share; }),
                            nullptr, "", "null on GPUs"),
          field_value<Host>("unreliable", &Host::unreliable, nullptr, "", "true above 1 %")};
}

template <>
FieldTable<OpTimes> make_fields() {
  const auto seconds = [](const char* key, double Spread::*of) {
    return field_value<OpTimes>(
        key, [of](const OpTimes& o) { return o.seconds.*of; }, nullptr);
  };
  return {field_value<OpTimes>(
              "kind", [](const OpTimes& o) { return op_kind_name(o.kind); }, nullptr),
          field("stage", &OpTimes::stage, "", "-1: none"),
          field("count", &OpTimes::count),
          seconds("p5_s", &Spread::p5),
          seconds("p50_s", &Spread::p50),
          seconds("p95_s", &Spread::p95)};
}

template <>
FieldTable<RealRunResult> make_fields() {
  using Real = RealRunResult;
  return {
      field("backend", &Real::backend, "text", "its name, as in `--backend`"),
      field("real", &Real::real, "text", "what was measured, what emulated"),
      field("iterations", &Real::iterations, "integer", "that were measured, warm-up not counted"),
      field("spread", &Real::spread, "object", "over the iterations, by nearest rank"),
      field("payloads_checked", &Real::payloads_checked, "integer",
            "messages and results of collectives, by receiver, warm-up included"),
      field("shares_queues", &Real::shares_queues, "true or false",
            "on a GPU: more streams than its 32 hardware queues, which may hold each other up "
            "([runtime.md](runtime.md#gpus))"),
      field_value<Real>("host", &Real::host, nullptr, "object",
                        "the host that it was played on (of many, rank 0's; "
                        "[runtime.md](runtime.md#on-one-host))"),
      field_value<Real>("op_times", &Real::op_times, nullptr, "list of objects",
                        "with `--compute gemm`, of the compute ops of each kind and stage")};
}

std::vector<FieldText> real_run_fields() { return fields_of<RealRunResult>().texts(); }

Json to_json(const RealRunResult& real) {
  Json json = to_json(real.result);
  to_json(json, real);
  return json;
}

RealRunResult real_run_result_from_json(const Json& json) {
  RealRunResult real{.result = run_result_from_json(json)};
  from_json(json, real);
  return real;
}

}  // namespace tandem
