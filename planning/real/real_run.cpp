#include "planning/real/real_run.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "launch/clock.h"
#include "planning/simulate/simulate.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// Plays the program. If the run fails, its partial trace is written and the Error says why. Errors
// of bad input are at `place`.
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

HostConditions host_before() {
  HostConditions host;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) host.cores = CPU_COUNT(&allowed);
  if (getloadavg(&host.load, 1) != 1) host.load = 0;
  return host;
}

std::vector<OpTimes> op_times(const Program& program, const std::vector<Trace>& iterations) {
  std::map<std::pair<OpKind, int>, std::vector<double>> seconds;
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
  real.iteration_s = spread_of(iterations_s);
  real.bubble_fraction = spread_of(bubble_fractions);
  real.payloads_checked = execution->payloads_checked;
  real.shares_queues = execution->shares_queues;
  host.late = execution->late;
  real.host = host;
  if (options.exec.compute == Compute::Gemm)
    real.op_times = op_times(program, execution->iterations);
  RETURN_IF_ERROR(write_files(program, &median, options.files, &real.result.warnings));
  return std::optional(std::move(real));
}

Json to_json(const Spread& spread) {
  return {{"p5", spread.p5}, {"p50", spread.p50}, {"p95", spread.p95}};
}

Json to_json(const HostConditions& host) {
  Json json = {{"cores", host.cores},
               {"load", host.load},
               {"late_p95_s", nullptr},
               {"late_share", nullptr},
               {"unreliable", host.unreliable()}};
  if (host.late.ops == 0) return json;
  json["late_p95_s"] = to_seconds(host.late.p95_ns);
  json["late_share"] = host.late.share;
  return json;
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
          result.training.reset();  // its FLOPs are those of a smaller or larger model
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

Json to_json(const RealRunResult& real) {
  Json json = to_json(real.result);
  json["backend"] = real.backend;
  json["real"] = real.real;
  json["iterations"] = real.iterations;
  json["spread"] = {{"iteration_s", to_json(real.iteration_s)},
                    {"bubble_fraction", to_json(real.bubble_fraction)}};
  json["payloads_checked"] = real.payloads_checked;
  json["shares_queues"] = real.shares_queues;
  json["host"] = to_json(real.host);
  json["op_times"] = Json::array();
  for (const OpTimes& times : real.op_times)
    json["op_times"].push_back({{"kind", op_kind_name(times.kind)},
                                {"stage", times.stage},
                                {"count", times.count},
                                {"p5_s", times.seconds.p5},
                                {"p50_s", times.seconds.p50},
                                {"p95_s", times.seconds.p95}});
  return json;
}

RealRunResult real_run_result_from_json(const Json& json) {
  const auto spread = [&](const char* of) {
    const Json& values = json.at("spread").at(of);
    return Spread{values.at("p5"), values.at("p50"), values.at("p95")};
  };
  RealRunResult real;
  real.result = run_result_from_json(json);
  json.at("backend").get_to(real.backend);
  json.at("real").get_to(real.real);
  json.at("iterations").get_to(real.iterations);
  json.at("payloads_checked").get_to(real.payloads_checked);
  json.at("shares_queues").get_to(real.shares_queues);
  real.iteration_s = spread("iteration_s");
  real.bubble_fraction = spread("bubble_fraction");
  return real;
}

}  // namespace tandem
