#include "results/run_detail.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "job/memory_timeline.h"
#include "results/job_result.h"
#include "traces/metrics.h"
#include "traces/timeline_json.h"
#include "workload/memory/reserve.h"

namespace tandem {
namespace {

// Writes the memory of each pipeline rank, in bytes: what it holds all the time, and its
// activations after each step, with the time when the step ended.
std::string memory_json(const Scenario& scenario, const CompiledJob& job, const Trace& trace) {
  std::string out = fmt::format(
      "{{\"capacity\":{},\"outside\":{},\"ranks\":[", scenario.cluster.spec.device.memory_bytes,
      memory_reserve(scenario.cluster.spec.device, scenario.job.model, job.plan).outside);
  const auto at = std::back_inserter(out);
  std::string_view comma = "";
  for (const MemoryTimeline& memory :
       memory_timelines(scenario.job.model, job.plan, job.order,
                        scenario.cluster.spec.device.gemm_workspace_bytes)) {
    const MemoryUse& held = memory.held;
    const StepEnds ends(memory.pipeline_rank, job.order.pp(), job.program, trace);
    std::vector<Nanoseconds> at_ns;
    std::vector<double> activations;
    for (const MemoryTimeline::Step& step : memory.steps) {
      at_ns.push_back(ends.of(step));
      activations.push_back(step.activations);
    }
    fmt::format_to(at,
                   "{}\n{{\"pipeline_rank\":{},\"weights\":{},\"gradients\":{},\"optimizer\":{},"
                   "\"communication\":{},\"workspace\":{},\n"
                   "\"at_ns\":[{}],\n\"activations\":[{}]}}",
                   std::exchange(comma, ","), memory.pipeline_rank, held.weights, held.gradients,
                   held.optimizer, held.communication, held.workspace, fmt::join(at_ns, ","),
                   fmt::join(activations, ","));
  }
  return out + "]}";
}

// Makes the JSON object of a run's detail. An empty part becomes null.
std::string object(const std::string& split, const std::string& memory, const std::string& timeline,
                   const std::string& strip = "") {
  const auto part = [](const std::string& text) { return text.empty() ? "null" : text; };
  return fmt::format("{{\"split\":{},\n\"memory\":{},\n\"timeline\":{}{}{}}}", part(split),
                     part(memory), part(timeline), strip.empty() ? "" : ",\n\"strip\":", strip);
}

std::string object(const Program& program, const Trace& trace, Detail detail, int strip_columns,
                   const std::string& memory) {
  if (detail == Detail::None && strip_columns == 0) return "";
  return object(detail == Detail::None ? "" : split_json(measure(program, trace).ranks), memory,
                detail == Detail::Timeline ? timeline_json(program, trace) : "",
                strip_columns == 0 ? "" : to_json(timeline_strip(program, trace, strip_columns)));
}

}  // namespace

std::string detail_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                      Detail detail, int strip_columns) {
  const bool has_memory = detail != Detail::None && !scenario.costs.uniform;
  return object(job.program, trace, detail, strip_columns,
                has_memory ? memory_json(scenario, job, trace) : "");
}

std::string detail_of(const Program& program, const Trace& trace, Detail detail,
                      int strip_columns) {
  return object(program, trace, detail, strip_columns, "");
}

TimelineStrip strip_of(const std::string& detail) {
  return timeline_strip_from_json(nlohmann::json::parse(detail).at("strip"));
}

std::string detail_of(const TraceTable& table) {
  return object(split_json(table.splits), "", timeline_json(table));
}

}  // namespace tandem
