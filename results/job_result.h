// JobResult: turns the Trace of a compiled job into its RunResult and files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "job/compile.h"
#include "results/run_detail.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"
#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

// The other outputs of a run. Empty paths and values mean none.
struct OutputFiles {
  std::string trace_csv;
  std::string perfetto;
  std::string svg;
  std::string kineto;            // a folder of files
  Detail detail = Detail::None;  // of RunResult::detail
  int strip_columns = 0;  // columns of a timeline in the detail, for a terminal; 0: no timeline
  // Called with the trace in the process that played it.
  std::function<Status(const Program&, const Trace&)> on_trace = {};

  // Whether any output is made from the events of all ranks.
  bool need_events() const;
  // Whether any is a file or a folder of files.
  bool need_files() const;
};

// Returns the result of a played job, without the engine's name and its time.
RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace);
// The same, if the `metrics` and the number of `ops` of all ranks are known: the trace then needs
// only the first rank of each body.
RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace,
                    const Metrics& metrics, std::int64_t ops);
RunResult result_of(const Program& program, const Trace& trace);

// Writes the files, or none if a writer refuses the trace. Adds the Program's name and hash to the
// trace's meta lines, unless they have one already. Adds warnings about the files.
Status write_files(const Program& program, Trace* trace, const OutputFiles& files,
                   std::vector<std::string>* warnings);

}  // namespace tandem
