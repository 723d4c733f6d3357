// PlayJob: plays a scenario's job on an engine, op by op or by a shortcut that gives the same
// result. The scenario's order and layout must be known (planning/choose).
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "job/compile.h"
#include "scenarios/scenario.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

// A shortcut for many microbatches: a job with fewer of them was played, and the scenario's own job
// has further rounds of the same actions (OrderRounds).
struct SteadyRounds {
  CompiledJob shorter;  // the same as the played job with one round less
  int round_microbatches = 1;
  std::int64_t further_rounds = 0;  // that the scenario's own job has beyond the played one
};

struct MeasuredJob {
  CompiledJob job;
  SimOptions options;
  Trace trace;  // may hold only a part of the ranks if no events are asked for
  Metrics metrics;
  std::int64_t ops = 0;
  double wall_s = 0;                   // seconds that the engine took
  std::optional<SteadyRounds> rounds;  // if `job` has fewer microbatches than the scenario's own
};

// Returns the engine's options for jitter and slow links. `folds`: whether the Program does. Error:
// slow links with the ideal engine, which does not know them, or slow links that the cluster does
// not have.
Result<SimOptions> sim_options(const VariabilitySettings& variability, const Cluster& cluster,
                               bool folds, Engine engine);
Result<SimOptions> options_of(const Scenario& scenario, const CompiledJob& job, Engine engine);

// Plays a compiled job with all its ops.
Result<Trace> play_compiled(const Scenario& scenario, const CompiledJob& job, Engine engine);

// Compiles the scenario and plays the job with all its ops, for callers that need the trace itself.
struct PlayedJob {
  CompiledJob job;
  Trace trace;
};
Result<PlayedJob> play_once(const Scenario& scenario, Engine engine);

// Plays the job. `events`: the events of all ranks are needed. `threads`: the most that may be
// used. `progress`: shows a bar.
Result<MeasuredJob> play_job(const Scenario& scenario, CompiledJob job, Engine engine, bool events,
                             int threads, bool progress);

// Extrapolates the scenario's own job on the ideal engine from two jobs with fewer microbatches,
// one round of the order apart: adds their difference for each further round. Returns nothing if
// rounds do not repeat to the nanosecond, or if the job is too small for this to pay. The trace and
// the order are those of the longer one of the two jobs.
std::optional<MeasuredJob> play_steady(const Scenario& scenario);

// Plays two such jobs again, with the prices that they have now. Returns nothing if rounds do not
// repeat.
std::optional<Metrics> steady_metrics(const CompiledJob& longer, const SteadyRounds& rounds);

// Plays the scenario's job on the ideal engine, without jitter.
Result<MeasuredJob> play_ideal(const Scenario& scenario);

}  // namespace tandem
