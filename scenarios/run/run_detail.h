// A run's detail: what a page draws of it beyond its RunResult's numbers, as a JSON object with
// `split`, `memory` and `timeline` (docs/formats.md);
// and what a terminal draws, `strip`.
#pragma once

#include <string>

#include "schedule/program/program.h"
#include "traces/timeline_strip.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

struct Scenario;
struct CompiledJob;

// How much of it: nothing, all but the timeline, all.
enum class Detail { None, Numbers, Timeline };

// Empty for Detail::None.
// `strip_columns`: of a timeline in a terminal; 0: none.
std::string detail_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                      Detail detail, int strip_columns);
std::string detail_of(const Program& program, const Trace& trace, Detail detail, int strip_columns);

// The timeline for a terminal that a detail holds; REQUIRES: it was asked for.
TimelineStrip strip_of(const std::string& detail);

// All that a trace file tells.
std::string detail_of(const TraceTable& table);

}  // namespace tandem
