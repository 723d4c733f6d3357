// CompiledJob: a scenario made ready to play; and from the Trace of its run to its RunResult and
// files.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run_detail.h"
#include "scenarios/run/run_result.h"
#include "schedule/lowering/price.h"
#include "schedule/order/order.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"
#include "traces/trace.h"
#include "workload/model/workload.h"

namespace tandem {

// What an engine or an executor is given.
struct CompiledJob {
  OrderedPlan plan;  // the scenario's, with what the order says of it
  Order order;
  Program program;
  Cluster cluster;
  Placement placement;
  std::vector<std::string> warnings;
  bool folds = true;  // equal ranks do the same; not where stragglers made them differ
};

// What else a run leaves behind; empty: nothing.
struct OutputFiles {
  std::string trace_csv;
  std::string perfetto;
  std::string svg;
  Detail detail = Detail::None;  // the RunResult's
};

// All but who played it, and how long that took.
RunResult result_of(const Scenario& scenario, const CompiledJob& job, const Trace& trace);
RunResult result_of(const Program& program, const Trace& trace);

// Adds the Program's name and hash to the trace's meta lines, where they do not have one already.
Status write_files(const Program& program, Trace* trace, const OutputFiles& files);

}  // namespace tandem
