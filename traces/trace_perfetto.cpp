// Writes a trace as JSON for Perfetto: a process for each rank, a thread for each lane. Declared in
// traces/trace_files.h.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "traces/perfetto_file.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

// Returns for instance "rank 3 (stage 3, x48 ranks)".
std::string process_name(const Body& body, const RankTrace& rank) {
  const std::set<int> stages = computed_stages(body);
  std::string what;
  if (!stages.empty())
    what = fmt::format("stage{} {}", stages.size() > 1 ? "s" : "", fmt::join(stages, " "));
  if (rank.multiplicity > 1)
    what += fmt::format("{}x{} ranks", what.empty() ? "" : ", ", rank.multiplicity);
  return fmt::format("rank {}{}", index(rank.rank), what.empty() ? "" : " (" + what + ")");
}

// Appends the members of the event's "args".
void append_args(const Program& program, const Op& op, const EventTimes& event,
                 fmt::memory_buffer* out) {
  const auto at = std::back_inserter(*out);
  fmt::format_to(at, FMT_COMPILE(R"("stage":{},"microbatch":{})"), op.stage, op.microbatch);
  if (!is_compute(op.kind))
    fmt::format_to(at, FMT_COMPILE(R"(,"bytes":{},"wait_ns":{})"), op.bytes,
                   event.start_ns - event.arrive_ns);
  if (op.kernel >= 0)
    fmt::format_to(at, FMT_COMPILE(R"(,"kernel":{})"),
                   json_string(program.kernels[op.kernel].name));
}

bool has_length(const EventTimes& event) { return event.end_ns > event.start_ns; }

void append_rank(const Program& program, const RankTrace& rank, std::span<const EventTimes> events,
                 PerfettoFile* file) {
  const Body& body = program.bodies[rank.body];
  const int process = index(rank.rank);
  std::vector<bool> lanes(body.lanes.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (has_length(events[i])) lanes[body.ops[i].lane] = true;
  }
  file->name_process(process, process_name(body, rank));
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane]) file->name_lane(process, static_cast<int>(lane), body.lanes[lane].name);
  }
  fmt::memory_buffer args;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!has_length(events[i])) continue;
    const Op& op = body.ops[i];
    std::string what = event_name(op.kind, op.microbatch, body.lanes[op.lane].name);
    if (op.parts > 1) what += fmt::format(" {}/{}", op.part + 1, op.parts);
    args.clear();
    append_args(program, op, events[i], &args);
    file->append({.process = process,
                  .lane = op.lane,
                  .start_ns = events[i].start_ns,
                  .length_ns = events[i].end_ns - events[i].start_ns,
                  .name = what,
                  .category = is_compute(op.kind) ? "compute"
                                                  : group_kind_name(body.slots[op.slot].group_kind),
                  .args = {args.data(), args.size()}});
  }
}

}  // namespace

Status check_perfetto(const Trace& trace, const std::string& path) {
  return check_perfetto_events(std::ranges::count_if(trace.events, has_length), path,
                               "write the trace as CSV (--trace)");
}

Status write_perfetto(const Program& program, const Trace& trace, const std::string& path) {
  RETURN_IF_ERROR(check_perfetto(trace, path));
  ASSIGN_OR_RETURN(PerfettoFile file, PerfettoFile::open(path, trace.meta));
  for (const RankTrace& rank : trace.ranks)
    append_rank(program, rank, trace.events_of(program, rank), &file);
  return file.commit();
}

}  // namespace tandem
