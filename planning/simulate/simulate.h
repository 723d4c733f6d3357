// Simulate: from a Scenario to its RunResult, in this process or in others: chooses an open order
// or layout, compiles, plays, measures, and answers the scenario's further questions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/compile.h"
#include "results/job_result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"
#include "schedule/program/program.h"
#include "sim/engines.h"

namespace tandem {

// Simulates one scenario with all that it asks for. `progress`: shows a bar if stderr is a
// terminal. `jobs`: how many repetitions are played at once.
Result<RunResult> simulate(const Scenario& scenario, Engine engine, const OutputFiles& files = {},
                           bool progress = false, int jobs = 1);

// Files that replace a Program's own prices: a cost table, or measured op times (a trace of the
// Program, or profiles of a real run). At most one of them is set; empty: the Program's own prices.
struct PricedBy {
  std::string costs;
  std::string op_times;
};

// Plays a priced Program by itself on the ideal engine. `fold`: one rank stands for all that do the
// same. With `priced_by` a trace's "program" line has the hash of the Program before it was priced
// anew, so that traces of one Program with several prices can be compared.
Result<RunResult> simulate_program(const Program& program, const OutputFiles& files = {},
                                   bool fold = true, const PricedBy& priced_by = {});

// Called whenever a run ends, and twice a second, with the number of runs that have ended. If it
// throws, all runs are ended.
using OnRuns = std::function<void(int done)>;

// Simulates many runs, each in a process of its own, `jobs` at once, and computes their savings
// against their baselines. The run of index `files_of` writes the files. If there is only one run
// and it is repeated, `jobs` of its repetitions are played at once.
std::vector<Result<RunResult>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                            int jobs, const OutputFiles& files = {},
                                            int files_of = 0, const OnRuns& on_runs = {});

// Calls `run` in a process of its own.
Result<RunResult> run_in_own_process(const std::function<Result<RunResult>()>& run,
                                     const OnRuns& on_runs = {});

}  // namespace tandem
