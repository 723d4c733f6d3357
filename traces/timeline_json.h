// A trace as JSON for the page that draws it: ranks, their lanes, and a lane's events in columns.
// docs/formats.md describes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

// More events than this would not load in a browser; the timeline then says how many there are.
constexpr std::int64_t kTimelineEventsMax = 1'500'000;

// Events that never ended, or have no length, are left out.
//
// REQUIRES: lane 0 is the compute lane.
std::string timeline_json(const Program& program, const Trace& trace);

// Times from the table's first start on. A table has no bodies: a rank stands for itself alone but
// where a split says otherwise.
std::string timeline_json(const TraceTable& table);

// Of a profile a lane a stream and activity, with the kernels' names in `names` and a lane's
// `name_of`, a column. Kernels that nothing tells
// the pass of have the kind "compute".
std::string timeline_json(const Profile& profile);

// By rank: compute, exposed communication by kind, and bubble, which add up to the iteration.
std::string split_json(std::span<const RankSplit> splits);

}  // namespace tandem
