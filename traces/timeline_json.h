// A trace as JSON for the page that draws it: ranks, their lanes, and each lane's events in columns
// (docs/formats.md).
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

// A page with more events would not load in a browser; the JSON then only says how many there are.
constexpr std::int64_t kTimelineEventsMax = 1'500'000;

// Leaves out events that never ended or have no length.
//
// REQUIRES: lane 0 is the compute lane.
std::string timeline_json(const Program& program, const Trace& trace);

// Counts times from the table's first start on. A table has no bodies: a rank stands for itself
// alone unless its split says otherwise.
std::string timeline_json(const TraceTable& table);

// Makes a lane of each stream and activity of a profile. "names" lists the kernels' names, and a
// lane's column "name_of" points into it. Kernels whose pass is unknown have the kind "compute".
std::string timeline_json(const Profile& profile);

// Returns columns by rank: compute, exposed communication by kind, and bubble, which add up to the
// iteration.
std::string split_json(std::span<const RankSplit> splits);

}  // namespace tandem
