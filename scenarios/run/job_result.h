// JobResult: from the Trace of a compiled job to its RunResult and files.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/compile.h"
#include "scenarios/run/run_detail.h"
#include "scenarios/run/run_result.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// What else a run leaves behind; empty: nothing.
struct OutputFiles {
  std::string trace_csv;
  std::string perfetto;
  std::string svg;
  std::string kineto;            // a folder
  Detail detail = Detail::None;  // the RunResult's
  int strip_columns = 0;         // of a timeline in its detail, for a terminal; 0: none
  // Given the trace in the process that plays it.
  std::function<Status(const Program&, const Trace&)> on_trace = {};
};

// All but who played it, and how long that took.
RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace);
RunResult result_of(const Program& program, const Trace& trace);

// Adds the Program's name and hash to the trace's meta lines, where they do not have one already.
// What a reader of the files should know goes to the warnings.
Status write_files(const Program& program, Trace* trace, const OutputFiles& files,
                   std::vector<std::string>* warnings);

}  // namespace tandem
