// RunDetail: the data that an HTML page shows of a run beside its RunResult. It is a JSON object
// with `hardware`, `split`, `memory` and `timeline` (docs/formats.md), and `strip`, the timeline
// for a terminal.
#pragma once

#include <string>

#include "schedule/program/program.h"
#include "traces/timeline_strip.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

struct Scenario;
struct CompiledJob;

// How much a detail holds: nothing, all but the timeline, or all.
enum class Detail { None, Numbers, Timeline };

// Returns a run's detail; empty for Detail::None. `strip_columns`: columns of a timeline for a
// terminal; 0: no such timeline.
std::string detail_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                      Detail detail, int strip_columns);
std::string detail_of(const Program& program, const Trace& trace, Detail detail, int strip_columns);

// Returns the timeline for a terminal that a detail holds. REQUIRES: the detail was made with one.
TimelineStrip strip_of(const std::string& detail);

// Returns the detail of a trace file.
std::string detail_of(const TraceTable& table);

}  // namespace tandem
