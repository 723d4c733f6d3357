#include "scenarios/run/played.h"

#include <fmt/format.h>

#include "traces/metrics.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

void add_metrics(const Metrics& metrics, const Trace& trace, Outcome* outcome) {
  outcome->iteration_s = metrics.iteration_s;
  outcome->compute_s = metrics.compute_s;
  outcome->bubble_ratio = metrics.bubble_ratio;
  outcome->bubble_fraction = metrics.bubble_fraction;
  outcome->bubble_window_fraction = metrics.bubble_window_fraction;
  outcome->bubble_window_fraction_max = metrics.bubble_window_fraction_max;
  outcome->exposed_s = metrics.exposed_s;
  outcome->comm_s = metrics.comm_s;
  outcome->overlap_fraction = metrics.overlap_fraction;
  outcome->sent_bytes = metrics.sent_bytes;
  outcome->exposed_between_nodes_s = metrics.exposed_between_nodes_s;
  outcome->ranks_simulated = static_cast<std::int64_t>(trace.ranks.size());
  outcome->ops = static_cast<std::int64_t>(trace.events.size());
}

}  // namespace

Outcome outcome_of(const Scenario& scenario, const Prepared& prepared, const Trace& trace) {
  Outcome outcome;
  outcome.name = scenario.name;
  outcome.axes = scenario.axes;
  outcome.points = scenario.points;
  outcome.cluster = scenario.has_cluster() ? scenario.cluster.name : "uniform";
  outcome.gpus = scenario.gpus;
  outcome.costs = scenario.costs_source;
  if (scenario.cost_table) outcome.costs += ' ' + scenario.cost_table->path;
  const Plan& plan = scenario.plan;
  outcome.plan = Cut{plan.tp, plan.pp, plan.vpp, plan.cp, plan.ep, plan.dp, plan.microbatches()};
  outcome.warnings = prepared.warnings;
  add_metrics(measure(prepared.program, trace), trace, &outcome);
  if (!scenario.uniform && outcome.iteration_s > 0)
    outcome.training = training(scenario, prepared.plan, prepared.order, prepared.program, trace,
                                outcome.iteration_s);
  if (scenario.published.tflops_per_gpu > 0) {
    for (const std::string& point : scenario.points) {
      if (point == scenario.published.cluster)
        outcome.published_tflops_per_gpu = scenario.published.tflops_per_gpu;
    }
  }
  return outcome;
}

Outcome outcome_of(const Program& program, const Trace& trace) {
  Outcome outcome;
  outcome.name = program.name;
  outcome.cluster = outcome.costs = "as priced";
  outcome.gpus = static_cast<int>(program.ranks.size());
  add_metrics(measure(program, trace), trace, &outcome);
  return outcome;
}

Status write_files(const Program& program, Trace* trace, const OutputFiles& files) {
  if (files.trace_csv.empty() && files.perfetto.empty() && files.svg.empty()) return Done{};
  if (trace->meta.empty() || trace->meta.front().first != "program")
    trace->meta.insert(trace->meta.begin(), program_line(program));
  // Those that may refuse first, so that they leave no other behind.
  if (!files.svg.empty()) RETURN_IF_ERROR(write_svg(program, *trace, files.svg));
  if (!files.perfetto.empty()) RETURN_IF_ERROR(write_perfetto(program, *trace, files.perfetto));
  if (!files.trace_csv.empty()) RETURN_IF_ERROR(write_trace_csv(program, *trace, files.trace_csv));
  return Done{};
}

}  // namespace tandem
