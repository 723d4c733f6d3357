// PlayJob: a scenario's job, compiled and played, in the shortest way that gives what all its ops,
// one by one, would.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/compile.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

// How a job of fewer microbatches, which was played, becomes the scenario's own: by more rounds of
// the order.
struct Rounds {
  CompiledJob shorter;       // a round of the order less than the job that was played
  int round = 1;             // microbatches
  std::int64_t further = 0;  // rounds that the scenario's own job has more than the one played
};

struct MeasuredJob {
  CompiledJob job;
  SimOptions options;
  Trace trace;  // that of a part may be all, where no events are asked for
  Metrics metrics;
  std::int64_t ops = 0;
  double wall_s = 0;             // of the engine
  std::optional<Rounds> rounds;  // where `job` has fewer microbatches than the scenario's own
};

Result<SimOptions> options_of(const Scenario& scenario, const CompiledJob& job, Engine engine);

// `events`: those of all ranks are needed. `threads`: at most. `progress`: with a bar.
Result<MeasuredJob> play_job(const Scenario& scenario, CompiledJob job, Engine engine, bool events,
                             int threads, bool progress);

// The scenario's own job on the ideal engine, from two of fewer microbatches that are a round of
// the order apart; nothing where its rounds do not repeat to the nanosecond, or it is too small to
// be worth it. The trace and the job's order are the longer one's.
std::optional<MeasuredJob> play_steady(const Scenario& scenario);

// The same of two such jobs as they are priced now; nothing where their rounds do not repeat.
std::optional<Metrics> steady_metrics(const CompiledJob& longer, const Rounds& rounds);

}  // namespace tandem
