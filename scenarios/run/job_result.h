// JobResult: from the Trace of a compiled job to its RunResult and files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/compile.h"
#include "scenarios/run/run_detail.h"
#include "scenarios/run/run_result.h"
#include "schedule/program/program.h"
#include "traces/metrics.h"
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

  // Whether anything of this is made from the events of all ranks.
  bool need_events() const;
};

// All but who played it, and how long that took.
RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace);
// `metrics` and `ops` are of all ranks; of the trace the first rank of each body is enough.
RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                    const Metrics& metrics, std::int64_t ops);
RunResult result_of(const Program& program, const Trace& trace);

// Adds the Program's name and hash to the trace's meta lines, where they do not have one already.
// What a reader of the files should know goes to the warnings.
Status write_files(const Program& program, Trace* trace, const OutputFiles& files,
                   std::vector<std::string>* warnings);

}  // namespace tandem
