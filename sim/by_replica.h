// A run in which every rank takes times of its own, played replica by replica.
//
// Replicas meet only in gradient reductions. So each is played alone up to its next meeting; the
// last to arrive there starts it. Between meetings a replica keeps only the ends that later ops
// wait for: memory grows with one replica's ops, not with all ranks'.
#pragma once

#include <optional>

#include "schedule/program/program.h"
#include "sim/engines.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

struct PlayedByReplica {
  Nanoseconds iteration_ns = 0;
  Rank latest{};  // the last to come to a reduction of gradients; of equal ones the first
  std::int64_t ops = 0;
  // Where asked for:
  Metrics metrics;  // of all ranks
  Trace trace;      // of the first rank of each body
};

// What ideal() gives to the nanosecond. Nothing where that is no shorter way: ranks fold, there is
// one replica alone, communication takes SMs from compute, or the Program never ends. `jobs`:
// threads.
std::optional<PlayedByReplica> play_by_replica(const Program& program, const SimOptions& options,
                                               bool measured, int jobs = 1);

}  // namespace tandem
