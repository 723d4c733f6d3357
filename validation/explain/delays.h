// Delays: gaps before ops of compute that no op of the Program explains, by what causes them.
#pragma once

#include <vector>

#include "schedule/program/program.h"
#include "validation/explain/measured_ops.h"

namespace tandem {

// The reason why an op of compute waited: a communication of a kind that the Program lets run
// beside it; copies that fill most of the gap; the data of the step; a synchronisation before the
// optimizer; other ranks, with which it goes on at one instant; a pause; or its launch.
enum class DelayKind { Overlap, Copies, Input, Synchronisation, Barrier, Pause, Launch };

// The name of a cause, and what to do.
struct DelayWords {
  const char *what, *advice;
};
DelayWords words_of(DelayKind kind);

struct Delay {
  std::uint32_t op = 0;
  DelayKind kind = DelayKind::Launch;
  GroupKind waited_for = GroupKind::Pipeline;  // of Overlap
  Nanoseconds ns = 0;
  bool is_before = true;  // the op, rather than inside it
};

// Returns the delays of a rank's step. `begin_ns`: the instant from which the rank could have
// begun, on its clock. Gaps whose begin is not known are left out. A gap of `pause_ns` or more that
// has no other cause is a pause.
std::vector<Delay> delays_of(const Body& body, const MeasuredStep& step, Nanoseconds begin_ns,
                             Nanoseconds pause_ns);

// One rank's delays in a step.
struct StepDelays {
  const Body* body = nullptr;
  const MeasuredStep* step = nullptr;
  std::vector<Delay> delays;
};

// Turns pauses into barriers: those of two ranks or more, or of one op on a rank like it, that end
// where another rank, which comes last, goes on without one. REQUIRES: ranks share a clock.
void find_barriers(std::vector<StepDelays>* ranks);

}  // namespace tandem
