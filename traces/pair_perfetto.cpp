// Writes two traces of one Program into one file for Perfetto, from their tables. Declared in
// traces/trace_files.h.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>

#include "traces/event_order.h"
#include "traces/perfetto_file.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

// Returns "compute", or the name of the communication's group kind.
std::string_view category(const TraceRow& row) {
  return is_compute(row.kind) ? "compute" : group_kind_name(group_kind_of_lane(row.lane));
}

// Returns the number of each rank's lanes, by name.
std::map<Rank, std::map<std::string_view, int>> numbered_lanes(const TraceTable& table) {
  std::map<Rank, std::map<std::string_view, int>> numbers;
  for (const auto& [rank, lanes] : shown_lanes(table)) {
    for (const std::string_view lane : lanes)
      numbers[rank].emplace(lane, static_cast<int>(numbers[rank].size()));
  }
  return numbers;
}

std::int64_t events_of(const TraceTable& table) {
  return std::count_if(table.rows.begin(), table.rows.end(),
                       [](const TraceRow& row) { return is_shown(row); });
}

// Returns the number of a rank's process: 2 x rank for side 0 (simulated), and the next for side 1.
std::int64_t process_of(Rank rank, int side) { return 2 * std::int64_t{index(rank)} + side; }

// Appends the table's events, with times from its first start on.
void append_table(const TraceTable& table, int side, std::string_view title, PerfettoFile* file) {
  const std::map<Rank, std::map<std::string_view, int>> lanes = numbered_lanes(table);
  for (const auto& [rank, numbers] : lanes) {
    const std::int64_t process = process_of(rank, side);
    file->name_process(process, fmt::format("rank {} {}", index(rank), title));
    for (const auto& [lane, number] : numbers) file->name_lane(process, number, lane);
  }
  Nanoseconds begin_ns = std::numeric_limits<Nanoseconds>::max();
  for (const TraceRow& row : table.rows) begin_ns = std::min(begin_ns, row.start_ns);
  fmt::memory_buffer args;
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row)) continue;
    args.clear();
    fmt::format_to(std::back_inserter(args),
                   FMT_COMPILE(R"("op":{},"stage":{},"microbatch":{},"part":{})"), row.op,
                   row.stage, row.microbatch, row.part);
    if (!is_compute(row.kind))
      fmt::format_to(std::back_inserter(args), FMT_COMPILE(R"(,"bytes":{},"wait_ns":{})"),
                     row.bytes, row.start_ns - row.arrive_ns);
    const std::string what = event_name(row.kind, row.microbatch, row.lane);
    file->append({.process = process_of(row.rank, side),
                  .lane = lanes.at(row.rank).at(row.lane),
                  .start_ns = row.start_ns - begin_ns,
                  .length_ns = row.end_ns - row.start_ns,
                  .name = what,
                  .category = category(row),
                  .args = {args.data(), args.size()}});
  }
}

}  // namespace

Status write_perfetto_pair(const TraceTable& simulated, const TraceTable& measured,
                           const std::string& path) {
  RETURN_IF_ERROR(check_perfetto_events(events_of(simulated) + events_of(measured), path,
                                        "compare fewer ranks or microbatches"));
  PerfettoFile::Meta meta;
  for (const auto& [key, value] : simulated.meta) meta.emplace_back("simulated " + key, value);
  for (const auto& [key, value] : measured.meta) meta.emplace_back("measured " + key, value);
  ASSIGN_OR_RETURN(PerfettoFile file, PerfettoFile::open(path, meta));
  append_table(simulated, 0, "simulated", &file);
  append_table(measured, 1, "measured", &file);
  return file.commit();
}

}  // namespace tandem
