// A trace as JSON for the page that draws it: its timeline (traces/timeline.h), and its split.
#pragma once

#include <span>
#include <string>

#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

// Leaves out events that never ended or have no length.
//
// REQUIRES: lane 0 is the compute lane.
std::string timeline_json(const Program& program, const Trace& trace);

// Counts times from the table's first start on. A table has no bodies: a rank stands for itself
// alone unless its split says otherwise.
std::string timeline_json(const TraceTable& table);

// Returns columns by rank: compute, exposed communication by kind, and bubble, which add up to the
// iteration.
std::string split_json(std::span<const RankSplit> splits);

}  // namespace tandem
