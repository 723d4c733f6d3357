// Recording: the times of each rank's ops in a real run, and the Trace made from them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// When a rank arrived at an op (was ready for it), and when the op ended there, on a clock that all
// ranks share. -1: not yet.
struct OwnTimes {
  Nanoseconds arrive_ns = -1;
  Nanoseconds end_ns = -1;
};

// One iteration: times by rank and op of its body.
using Recording = std::vector<std::vector<OwnTimes>>;

// Makes the trace. Times count from the first arrival of any rank. A communication starts at the
// latest arrival of its members, or of those whose arrivals are known; but not after its end, if
// clock errors put the arrival there. Ops that have not ended keep end_ns -1. Their start_ns is -1
// too, unless all members have arrived.
//
// REQUIRES: recording has a vector for each rank, with times for each op of its body.
Trace trace_of(const Program& program, const Recording& recording);

// The values that meta_lines() writes.
struct RunMeta {
  std::string backend;
  std::string real;  // Execution::real
  std::uint64_t seed = 1;
  int iteration = 1;  // from 1; 0: a warm-up that failed
  int iterations = 1;
  bool complete = true;
};
// Returns the meta lines of a real iteration's trace, as keys and values.
std::vector<std::pair<std::string, std::string>> meta_lines(const Program& program,
                                                            const RunMeta& meta);

}  // namespace tandem
