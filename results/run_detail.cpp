// Writes a run's detail as JSON text, part by part: hardware, split, memory, timeline, strip.
#include "results/run_detail.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/units.h"
#include "job/memory_timeline.h"
#include "results/job_result.h"
#include "traces/metrics.h"
#include "traces/timeline_json.h"
#include "workload/memory/reserve.h"

namespace tandem {
namespace {

// Returns the memory of each pipeline rank, in bytes: its tensors that stay all the time, and its
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

// Returns "128 nodes of 8 A100-SXM4-80GB · inside 300 GB/s a GPU and direction · outside 8 x 200
// Gbit/s". In nodes without an NVLink switch, the rate inside is that of two joined GPUs.
std::string hardware_text(const ClusterSpec& spec, int gpus) {
  const int nodes = (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
  const std::string& gpu = spec.device.name;
  std::string text = nodes == 1 ? fmt::format("{} {} in a node", gpus, gpu)
                                : fmt::format("{} nodes of {} {}", nodes, spec.gpus_per_node, gpu);
  if (spec.cables) return text + " · joined as listed";
  text += fmt::format(" · inside {:.4g} GB/s {} and direction", spec.intra_bytes_per_s / GB,
                      spec.nvlinks.empty() ? "a GPU" : "a joined pair");
  if (nodes > 1)
    text += fmt::format(" · outside {} x {:.4g} Gbit/s", spec.nics_per_node,
                        spec.nic_bytes_per_s / Gbit);
  return text;
}

// The parts of a detail, each as JSON text. An empty part becomes null; an empty strip is left out.
struct DetailParts {
  std::string hardware, split, memory, timeline, strip;
};

std::string object(const DetailParts& parts) {
  const auto part = [](const std::string& json) { return json.empty() ? "null" : json; };
  return fmt::format("{{\"hardware\":{},\n\"split\":{},\n\"memory\":{},\n\"timeline\":{}{}{}}}",
                     part(parts.hardware), part(parts.split), part(parts.memory),
                     part(parts.timeline), parts.strip.empty() ? "" : ",\n\"strip\":", parts.strip);
}

// Returns the detail with the parts from the trace beside those from the scenario.
std::string with_trace_parts(const Program& program, const Trace& trace, Detail detail,
                             int strip_columns, DetailParts parts) {
  if (detail == Detail::None && strip_columns == 0) return "";
  if (detail != Detail::None) parts.split = split_json(measure(program, trace).ranks);
  if (detail == Detail::Timeline) parts.timeline = timeline_json(program, trace);
  if (strip_columns > 0) parts.strip = to_json(timeline_strip(program, trace, strip_columns));
  return object(parts);
}

}  // namespace

std::string detail_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                      Detail detail, int strip_columns) {
  DetailParts parts;
  if (detail != Detail::None && !scenario.costs.uniform) {
    parts.hardware =
        json_line(nlohmann::json(hardware_text(scenario.cluster.spec, job.plan.gpus())));
    parts.memory = memory_json(scenario, job, trace);
  }
  return with_trace_parts(job.program, trace, detail, strip_columns, std::move(parts));
}

std::string detail_of(const Program& program, const Trace& trace, Detail detail,
                      int strip_columns) {
  return with_trace_parts(program, trace, detail, strip_columns, {});
}

TimelineStrip strip_of(const std::string& detail) {
  return timeline_strip_from_json(nlohmann::json::parse(detail).at("strip"));
}

std::string detail_of(const TraceTable& table) {
  DetailParts parts;
  parts.split = split_json(table.splits);
  parts.timeline = timeline_json(table);
  return object(parts);
}

}  // namespace tandem
