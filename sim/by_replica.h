// Plays a run in which every rank's times differ (jitter), one replica after another.
//
// Replicas meet only in reductions between them. So each replica is played alone up to its next
// meeting, and the last one to arrive there starts it. Between meetings a replica keeps only the
// ends that later ops wait for: memory grows with the ops of one replica, not with those of all
// ranks.
#pragma once

#include <optional>

#include "schedule/program/program.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

struct PlayedByReplica {
  Nanoseconds iteration_ns = 0;
  Rank latest{};  // the last rank to arrive at a gradient reduction; the lowest one if several do
  std::int64_t ops = 0;
  // The two below are filled where `measured` is set.
  Metrics metrics;  // of all ranks
  Trace trace;      // of the first rank of each body
};

// Returns what ideal() gives, to the nanosecond. Returns nothing where this way saves nothing or
// does not apply: ranks fold, there is only one replica, communication takes SMs from compute, or
// the Program never ends. `jobs` is the number of threads.
std::optional<PlayedByReplica> play_by_replica(const Program& program, const SimOptions& options,
                                               bool measured, int jobs = 1);

}  // namespace tandem
