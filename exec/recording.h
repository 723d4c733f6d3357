// Recording: what the ranks of a real run noted, op by op, and the Trace that comes of it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// When a rank was ready for an op, and when it ended there, on a clock that all ranks share. -1:
// not yet.
struct OwnTimes {
  Nanoseconds arrive_ns = -1;
  Nanoseconds end_ns = -1;
};

// One iteration, by rank and op of its body.
using Recording = std::vector<std::vector<OwnTimes>>;

// The trace, with times from the first arrival of any rank. A communication starts at the latest
// arrival of its participants (of those known, where it ended and one never told), or at its end
// where the clocks' error puts that before it. Ops that have not ended keep end_ns -1, and start_ns
// -1 where not all have arrived.
//
// REQUIRES: ranks' vectors are as long as their bodies.
Trace trace_of(const Program& program, const Recording& recording);

// The meta lines of a real run's iteration.
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
