// MeasuredOps: when each op of a Program ran, as a profile's rank tells it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "schedule/program/program.h"
#include "schedule/program/replay.h"
#include "traces/profile/profile.h"
#include "traces/profile/profile_metrics.h"
#include "validation/explain/matched_comms.h"

namespace tandem {

// When an op ran, on the rank's own clock.
struct MeasuredOp {
  Nanoseconds start_ns = -1, end_ns = -1;  // -1: the profile does not tell
  // Compute: while the op's kernels run. Communication: from the arrival of the last participant,
  // as far as the profile knows it (align.h).
  Nanoseconds busy_ns = 0;

  bool known() const { return end_ns >= 0; }
};

// One step on one rank. `ops`: by number in the rank's body.
struct MeasuredStep {
  int forward_runs = 0;                   // without annotations of passes: runs of forward kernels
  std::optional<Nanoseconds> begin_ns;    // of its annotation on the CPU, if it has one
  Nanoseconds first_ns = 0, last_ns = 0;  // start of its first kernel, end of its last one
  std::vector<MeasuredOp> ops;
  CommCounts comms;
  Intervals copies;     // while any copy or fill runs
  Intervals computing;  // while any kernel of compute runs
  Intervals active;     // while anything runs
};

// Returns the steps of a profile's rank, which is the Program's rank `rank`. Kernels before the
// first ProfilerStep do not count.
//
// Kernels are of the pass (phase, stage, microbatch) that their annotation names. If annotations
// have no microbatch, the n-th pass of a phase and stage counts as that of microbatch n; without
// annotations, forwards and backwards alternate. If a pass has as many kernels as ops, they match
// in order; else each op takes its share, by simulated duration, of the time that the pass's
// kernels run, one op after the other. Communications match as matched_comms() says.
std::vector<MeasuredStep> measured_steps(const Program& program, int rank,
                                         std::span<const EventTimes> simulated,
                                         const ProfileRank& profile);

}  // namespace tandem
