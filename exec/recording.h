// Recording: the times that the ranks of a real run noted, op by op, and the Trace made of them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// When a rank was ready for an op, and when the op ended there, on a clock that all ranks share.
// -1: not yet.
struct OwnTimes {
  Nanoseconds arrive_ns = -1;
  Nanoseconds end_ns = -1;
};

// One iteration: times by rank and op of its body.
using Recording = std::vector<std::vector<OwnTimes>>;

// Makes the trace. Times count from the first arrival of any rank. A communication starts at the
// latest arrival of its participants, or at its end if the clocks' error puts that before it. Where
// it ended but a participant's arrival is unknown, the latest known arrival counts. Ops that have
// not ended keep end_ns -1, and start_ns -1 too unless all participants have arrived.
//
// REQUIRES: ranks' vectors are as long as their bodies.
Trace trace_of(const Program& program, const Recording& recording);

// Facts for the meta lines of a real run's iteration.
struct RunMeta {
  std::string backend;
  std::string real;
  std::uint64_t seed = 1;
  int iteration = 1;  // from 1; 0: a warm-up that failed
  int iterations = 1;
  bool complete = true;
};
std::vector<std::pair<std::string, std::string>> meta_lines(const Program& program,
                                                            const RunMeta& meta);

}  // namespace tandem
