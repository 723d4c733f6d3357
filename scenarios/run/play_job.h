// PlayJob: a scenario's job, compiled and played, in the shortest way that gives what all its ops,
// one by one, would.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/compile.h"
#include "schedule/order/named_orders.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

struct MeasuredJob {
  CompiledJob job;
  SimOptions options;
  Trace trace;  // that of a part may be all, where no events are asked for
  Metrics metrics;
  std::int64_t ops = 0;
  double wall_s = 0;  // of the engine
};

Result<SimOptions> options_of(const Scenario& scenario, const CompiledJob& job, Engine engine);

// `events`: those of all ranks are needed. `threads`: at most. `progress`: with a bar.
Result<MeasuredJob> play_job(const Scenario& scenario, CompiledJob job, Engine engine, bool events,
                             int threads, bool progress);

// Two jobs of fewer microbatches, one round of the order apart.
struct ShortJobs {
  CompiledJob shorter, longer;
  int round = 1;             // microbatches
  std::int64_t further = 0;  // rounds that the scenario's own job has more than the longer one
};

// How many rounds the longer one is tried with, once its pipeline is full: at least three that
// repeat, where ops wait for the round before theirs, and those in which the times settle.
inline constexpr std::array kSteadyRounds = {5, 15, 45};

// What the job's order does again and again; 0 microbatches where that is not known, or the job is
// too small to ask.
OrderRounds rounds_of(const Scenario& scenario);

// Nothing where the scenario's job is not such a job with more rounds, or too small to be worth it.
std::optional<ShortJobs> short_jobs(const Scenario& scenario, const OrderRounds& of_order,
                                    int rounds);

// The scenario's own job on the ideal engine from two such, where their rounds repeat to the
// nanosecond; the trace and the job's order are the longer one's. Else nothing.
std::optional<MeasuredJob> play_steady(const Scenario& scenario);
std::optional<Metrics> steady_metrics(const ShortJobs& jobs);

}  // namespace tandem
