// Run: from a Scenario to its RunResult and files, by playing what compile() makes of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/compile.h"
#include "scenarios/run/job_result.h"
#include "scenarios/run/run_result.h"
#include "schedule/program/program.h"
#include "sim/engines.h"

namespace tandem {

// Played once, by itself.
Result<RunResult> play(const Scenario& scenario, const CompiledJob& job, Engine engine);

// `progress`: with a bar, where stderr is a terminal. `jobs`: of one that is played many times, how
// many at once.
Result<RunResult> simulate(const Scenario& scenario, Engine engine, const OutputFiles& files = {},
                           bool progress = false, int jobs = 1);

// What an engine made of a scenario, for those who look at the trace itself.
struct PlayedJob {
  CompiledJob job;
  Trace trace;
};
Result<PlayedJob> play_once(const Scenario& scenario, Engine engine);

// A Program's prices in place of its own, from a file: a cost table, or a trace of it, or profiles
// of a real run, that say what its ops took. At most one of them; empty: its own.
struct PricedBy {
  std::string costs;
  std::string op_times;
};

// A priced Program by itself, on the ideal engine. `fold`: one rank stands for its equals. Its
// files name the Program as it came, so that traces with other prices can be compared.
Result<RunResult> simulate(const Program& program, const OutputFiles& files = {}, bool fold = true,
                           const PricedBy& priced_by = {});

// Told as runs end, and twice a second, how many have ended. What it throws ends all of them.
using OnRuns = std::function<void(int done)>;

// Many runs, each in a process of its own, `jobs` at once, and what they save against their
// baselines; files are those of run `files_of`. One run that is played many times: `jobs` of these
// at once.
std::vector<Result<RunResult>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                            int jobs, const OutputFiles& files = {},
                                            int files_of = 0, const OnRuns& on_runs = {});

// One run, whatever it is, in a process of its own.
Result<RunResult> run_apart(const std::function<Result<RunResult>()>& run,
                            const OnRuns& on_runs = {});

}  // namespace tandem
