#include "results/job_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/metrics.h"
#include "traces/profile/kineto_writer.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

void add_metrics(const Metrics& metrics, std::int64_t ops, RunResult* result) {
  result->iteration_s = metrics.iteration_s;
  result->compute_s = metrics.compute_s;
  result->bubble_ratio = metrics.bubble_ratio;
  result->bubble_fraction = metrics.bubble_fraction;
  result->bubble_window_fraction = metrics.bubble_window_fraction;
  result->bubble_window_fraction_max = metrics.bubble_window_fraction_max;
  result->exposed_s = metrics.exposed_s;
  result->comm_s = metrics.comm_s;
  result->overlap_fraction = metrics.overlap_fraction;
  result->sent_bytes = metrics.sent_bytes;
  result->exposed_between_nodes_s = metrics.exposed_between_nodes_s;
  result->ranks_simulated = static_cast<std::int64_t>(metrics.ranks.size());
  result->ops = ops;
}

Status write_profiles(const Program& program, const Trace& trace, const std::string& folder,
                      std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const KinetoWritten written, write_kineto(program, trace, folder));
  if (written.below_us > 0)
    warnings->push_back(fmt::format(
        "{}: {} of {} kernels are shorter than 1 us: Holistic Trace Analysis, which rounds to "
        "whole us, may drop them; tandem trace does not",
        folder, written.below_us, written.kernels));
  return Done{};
}

}  // namespace

bool OutputFiles::need_files() const {
  return !trace_csv.empty() || !perfetto.empty() || !svg.empty() || !kineto.empty();
}

bool OutputFiles::need_events() const {
  return need_files() || detail != Detail::None || strip_columns > 0 || on_trace != nullptr;
}

RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                    const Metrics& metrics, std::int64_t ops) {
  RunResult result;
  result.name = scenario.name;
  result.axes = scenario.axes;
  result.points = scenario.points;
  result.cluster = scenario.costs.need_cluster() ? scenario.cluster.spec.name : "uniform";
  result.gpus = scenario.cluster.gpus;
  result.costs = scenario.costs.source;
  if (scenario.costs.table) result.costs += ' ' + scenario.costs.table->path;
  const Plan& plan = scenario.job.plan;
  result.plan =
      ParallelSizes{plan.tp, plan.pp, plan.vpp, plan.cp, plan.ep, plan.dp, plan.microbatches()};
  result.layout = scenario.job.layout;
  if (scenario.job.found_order) result.found_order = scenario.job.found_order->finding;
  result.warnings = job.warnings;
  add_metrics(metrics, ops, &result);
  if (!scenario.costs.uniform && result.iteration_s > 0)
    result.training =
        training(scenario, job.plan, job.order, job.program, trace, result.iteration_s);
  // The published figure was measured on one cluster. Only runs at that point of an axis have it.
  const auto& published = scenario.report.published;
  if (published.tflops_per_gpu > 0 &&
      std::ranges::find(scenario.points, published.cluster) != scenario.points.end())
    result.published_tflops_per_gpu = published.tflops_per_gpu;
  return result;
}

RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace) {
  return result_of(scenario, job, trace, measure(job.program, trace),
                   static_cast<std::int64_t>(trace.events.size()));
}

RunResult result_of(const Program& program, const Trace& trace) {
  RunResult result;
  result.name = program.name;
  result.cluster = result.costs = "as priced";
  result.gpus = static_cast<int>(program.ranks.size());
  add_metrics(measure(program, trace), static_cast<std::int64_t>(trace.events.size()), &result);
  return result;
}

Status write_files(const Program& program, Trace* trace, const OutputFiles& files,
                   std::vector<std::string>* warnings) {
  if (files.on_trace) RETURN_IF_ERROR(files.on_trace(program, *trace));
  if (!files.need_files()) return Done{};
  if (trace->meta.empty() || trace->meta.front().first != "program")
    trace->meta.insert(trace->meta.begin(), program_line(program));
  // Writers that may refuse the trace are asked before any file is written. The first one that
  // writes, write_svg, refuses before it writes.
  RETURN_IF_ERROR(check_kineto_folder(files.kineto));
  if (!files.perfetto.empty()) RETURN_IF_ERROR(check_perfetto(*trace, files.perfetto));
  if (!files.svg.empty()) RETURN_IF_ERROR(write_svg(program, *trace, files.svg));
  if (!files.perfetto.empty()) RETURN_IF_ERROR(write_perfetto(program, *trace, files.perfetto));
  if (!files.kineto.empty())
    RETURN_IF_ERROR(write_profiles(program, *trace, files.kineto, warnings));
  if (!files.trace_csv.empty()) RETURN_IF_ERROR(write_trace_csv(program, *trace, files.trace_csv));
  return Done{};
}

}  // namespace tandem
