#include "scenarios/run/run_detail.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "scenarios/run/memory_timeline.h"
#include "scenarios/run/played.h"
#include "traces/metrics.h"
#include "traces/timeline_json.h"

namespace tandem {
namespace {

std::string memory_json(const Scenario& scenario, const Prepared& prepared, const Trace& trace) {
  std::string out = fmt::format("{{\"capacity\":{},\"reserve\":{},\"ranks\":[",
                                scenario.cluster.device.memory_bytes,
                                memory_reserve_bytes(scenario.cluster.device));
  const auto at = std::back_inserter(out);
  std::string_view comma = "";
  for (const MemoryCourse& course : memory_courses(scenario.model, prepared.plan, prepared.order)) {
    const MemoryUse& held = course.held;
    const StepEnds ends(course.pipeline_rank, prepared.order.pp(), prepared.program, trace);
    std::vector<Nanoseconds> at_ns;
    std::vector<double> activations;
    for (const MemoryCourse::Step& step : course.steps) {
      at_ns.push_back(ends.of(step));
      activations.push_back(step.activations);
    }
    fmt::format_to(at,
                   "{}\n{{\"pipeline_rank\":{},\"weights\":{},\"gradients\":{},\"optimizer\":{},"
                   "\"communication\":{},\n\"at_ns\":[{}],\n\"activations\":[{}]}}",
                   std::exchange(comma, ","), course.pipeline_rank, held.weights, held.gradients,
                   held.optimizer, held.communication, fmt::join(at_ns, ","),
                   fmt::join(activations, ","));
  }
  return out + "]}";
}

// An empty part is none.
std::string object(const std::string& split, const std::string& memory,
                   const std::string& timeline) {
  const auto part = [](const std::string& text) { return text.empty() ? "null" : text; };
  return fmt::format("{{\"split\":{},\n\"memory\":{},\n\"timeline\":{}}}", part(split),
                     part(memory), part(timeline));
}

std::string object(const Program& program, const Trace& trace, Detail detail,
                   const std::string& memory) {
  return object(split_json(measure(program, trace).ranks), memory,
                detail == Detail::Timeline ? timeline_json(program, trace) : "");
}

}  // namespace

std::string detail_of(const Scenario& scenario, const Prepared& prepared, const Trace& trace,
                      Detail detail) {
  if (detail == Detail::None) return "";
  return object(prepared.program, trace, detail,
                scenario.uniform ? "" : memory_json(scenario, prepared, trace));
}

std::string detail_of(const Program& program, const Trace& trace, Detail detail) {
  return detail == Detail::None ? "" : object(program, trace, detail, "");
}

std::string detail_of(const TraceTable& table) {
  return object(split_json(table.splits), "", timeline_json(table));
}

}  // namespace tandem
