// Delays: gaps before (or inside) ops of compute that no op of the Program explains, and their
// causes.
#pragma once

#include <vector>

#include "schedule/program/program.h"
#include "validation/explain/measured_ops.h"

namespace tandem {

// The thing for which an op of compute waited.
enum class DelayKind {
  Overlap,          // the end of a communication that the Program lets run beside the op
  Copies,           // copies or fills that take most of the gap
  Input,            // the step's data, before its first op
  Synchronisation,  // something before the optimizer
  Barrier,          // other ranks, which go on at the same instant
  Pause,            // nothing known, for long
  Launch            // the launch of its kernels
};

// The name of a cause, and what to do.
struct DelayWords {
  const char *what, *advice;
};
DelayWords words_of(DelayKind kind);

struct Delay {
  std::uint32_t op = 0;
  DelayKind kind = DelayKind::Launch;
  GroupKind waited_for = GroupKind::Pipeline;  // the communication's, of DelayKind::Overlap
  Nanoseconds ns = 0;
  bool is_before = true;  // false: the gap is between kernels of the op
};

// Returns the delays of a rank's step. `begin_ns`: the instant from which the rank could have
// begun, on its clock. Gaps whose begin is not known are left out. A gap of `pause_ns` or more that
// has no other cause is a pause.
std::vector<Delay> delays_of(const Body& body, const MeasuredStep& step, Nanoseconds begin_ns,
                             Nanoseconds pause_ns);

// One rank's delays in a step.
struct StepDelays {
  int rank = 0;
  const Body* body = nullptr;
  const MeasuredStep* step = nullptr;
  std::vector<Delay> delays;
};

// Turns a pause into a barrier if, at the instant at which it ends, another rank begins an op
// without having waited: it came last to the barrier. As this may be chance, that rank must begin
// the same op of the same body, or at least two ranks must have waited, the paused one included.
// REQUIRES: ranks share a clock.
void find_barriers(std::vector<StepDelays>* ranks);

}  // namespace tandem
