// MeasuredOps: when each op of a Program ran, as a profile's rank tells it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "schedule/program/program.h"
#include "schedule/program/replay.h"
#include "traces/profile/profile.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {

// An op on the rank's own clock. Of compute, `busy_ns` is while its kernels run, `idle_ns` while
// none of the rank's runs in between, and `longest_idle_ns` the longest piece of that. Of
// communication, `busy_ns` counts from the arrival of the last participant, as far as the profile
// knows it (align.h).
struct MeasuredOp {
  Nanoseconds start_ns = -1, end_ns = -1;  // -1: the profile does not tell
  Nanoseconds busy_ns = 0, idle_ns = 0, longest_idle_ns = 0;

  bool known() const { return end_ns >= 0; }
};

// One step on one rank. `ops`: by number in the rank's body.
struct MeasuredStep {
  int forward_runs = 0;                   // without annotations of passes: runs of forward kernels
  std::optional<Nanoseconds> begin_ns;    // of its annotation on the CPU, if it has one
  Nanoseconds first_ns = 0, last_ns = 0;  // start of its first kernel, end of its last one
  std::vector<MeasuredOp> ops;
  Intervals copies;  // while any copy or fill runs
};

// Returns the steps of a profile's rank, which is the Program's rank `rank`; those before the first
// ProfilerStep do not count where there is one.
//
// A pass (phase, stage and microbatch; without microbatches the n-th of its phase and stage) is
// told by its annotation; without any, forwards and backwards alternate. If it has as many kernels
// as ops, they match in order; else each op takes its share, by simulated duration, of the time
// that the pass's kernels run, one op after the other. Communications match by label, ranks and the
// order in which they start in `simulated`, where both sides have equally many.
std::vector<MeasuredStep> measured_steps(const Program& program, int rank,
                                         std::span<const EventTimes> simulated,
                                         const ProfileRank& profile);

}  // namespace tandem
