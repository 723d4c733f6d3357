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

// The `program` line of a trace's meta: the Program's name, and its hash as 16 hexadecimal digits.
std::pair<std::string, std::string> program_line(const Program& program);

// `# key: value` lines, a row of column names, and a row an event, ordered by start, rank, lane (as
// the body counts them), op:
//   rank,lane,op,kind,stage,microbatch,part,bytes,arrive_ns,start_ns,end_ns
// A stage or microbatch that an op does not have is -1. Where all events have ended, the header
// also has a line `# split RANK: ...` a rank (split_text.h). Events that never ended (of a partial
// trace) are left out; line ends in meta values become blanks.
//
// REQUIRES: meta keys are not empty and hold no ':' and no line end.
Status write_trace_csv(const Program& program, const Trace& trace, const std::string& path);

// One event as a trace file tells it: without its Program.
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
  std::vector<RankSplit> splits;  // of a split, what split_text tells; none of a partial trace
  std::vector<TraceRow> rows;
};

// The inverse of write_trace_csv. Comments that are no `key: value` are skipped.
Result<TraceTable> read_trace_csv(const std::string& path);

// A lane of communication has the name of its group kind, except for the pipeline's edges.
GroupKind group_kind_of_lane(std::string_view lane);

// The value of a meta line; "" where there is none.
std::string_view meta_value(const TraceTable& table, std::string_view key);

// One process a rank, one thread a lane; events of no length are left out. Error(BadInput) where
// more than kPerfettoEventsMax are left.
Status write_perfetto(const Program& program, const Trace& trace, const std::string& path);

// Two traces of one Program for the eye: a rank's two processes stand one above the other, and both
// iterations begin at 0.
Status write_perfetto(const TraceTable& simulated, const TraceTable& measured,
                      const std::string& path);

// A timeline of the whole iteration, for slides: a band a rank, in it a row a lane that has events;
// what is too narrow to see is merged. Error(BadInput) for more than 64 ranks or 400 rows.
//
// REQUIRES: lane 0 is the compute lane.
Result<std::string> svg_text(const Program& program, const Trace& trace);
Status write_svg(const Program& program, const Trace& trace, const std::string& path);

}  // namespace tandem
