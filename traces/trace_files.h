// A trace's files: CSV, JSON for Perfetto (https://ui.perfetto.dev) or chrome://tracing, and SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

// Returns the `program` line of a trace's meta: the Program's name, and its hash as 16 hexadecimal
// digits.
std::pair<std::string, std::string> program_line(const Program& program);

// Writes `# key: value` lines, a row of column names, and a row for each event:
//   rank,lane,op,kind,stage,microbatch,part,bytes,arrive_ns,start_ns,end_ns
// Rows are ordered by start, rank, lane (as the body counts them), op. A stage or microbatch that
// an op does not have is -1. If all events have ended, the header also has a line `# split RANK:
// ...` for each rank (split_text.h). Events that never ended (of a partial trace) are left out.
// Line ends in meta values become blanks.
//
// REQUIRES: meta keys are not empty and hold no ':' and no line end.
Status write_trace_csv(const Program& program, const Trace& trace, const std::string& path);

// An event as a trace file has it, without its Program.
struct TraceRow {
  Rank rank{};
  std::string lane;
  std::int64_t op = 0;  // counted through all bodies of the Program
  OpKind kind = OpKind::Forward;
  std::int16_t stage = -1;
  std::int32_t microbatch = -1;
  std::int16_t part = 0;
  Bytes bytes = 0;
  Nanoseconds arrive_ns = 0;
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;

  bool operator==(const TraceRow&) const = default;
};

// A trace file as read, rows in the file's order.
struct TraceTable {
  std::string path;
  std::vector<std::pair<std::string, std::string>> meta;
  std::vector<RankSplit> splits;  // as far as split_text tells; none of a partial trace
  std::vector<TraceRow> rows;
};

// Reads what write_trace_csv writes. Skips comments that are not `key: value`.
Result<TraceTable> read_trace_csv(const std::string& path);

// Returns the group kind of a lane of communication, which has the kind's name except for the
// pipeline's edges.
GroupKind group_kind_of_lane(std::string_view lane);

// Returns the value of a meta line, or "" if there is none.
std::string_view meta_value(const TraceTable& table, std::string_view key);

// Writes one process for each rank and one thread for each lane. Leaves out events of no length.
// Error(BadInput) if more than kPerfettoEventsMax are left, which check_perfetto() tells
// beforehand.
Status check_perfetto(const Trace& trace, const std::string& path);
Status write_perfetto(const Program& program, const Trace& trace, const std::string& path);

// Writes two traces of one Program to compare by eye: each rank's two processes stand one above the
// other, and both iterations begin at 0.
Status write_perfetto_pair(const TraceTable& simulated, const TraceTable& measured,
                           const std::string& path);

// Draws a timeline of the whole iteration, for slides: a band for each rank, in it a row for each
// lane that has events. Merges what is too narrow to see. Error(BadInput) for more than 64 ranks or
// 400 rows.
//
// REQUIRES: lane 0 is the compute lane.
Result<std::string> svg_text(const Program& program, const Trace& trace);
Status write_svg(const Program& program, const Trace& trace, const std::string& path);

}  // namespace tandem
