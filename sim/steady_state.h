// Steady state: extrapolates an iteration of many microbatches from two of few.
//
// A full pipeline repeats itself every few microbatches: a round. If the times of its rounds repeat
// to the nanosecond, one more round delays all later ops by one period (the time of a round) and
// changes nothing else. So two iterations that differ by one round give one of any number of rounds
// (docs/design.md, "Steady state"). Example: 67 microbatches take 1,000 ms and 68 take 1,010 ms;
// then 512 take 1,010 + 444 x 10 = 5,450 ms.
#pragma once

#include <cstdint>

#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

// A Program that was played on the ideal engine, and its metrics.
struct PlayedProgram {
  const Program* program = nullptr;
  Metrics metrics;
  Nanoseconds iteration_ns = 0;
  std::int64_t ops = 0;
};

PlayedProgram measured(const Program& program, const Trace& trace);

// Returns whether with_rounds() gives exact results: `longer` is `shorter` with one more round of
// `microbatches` microbatches of each chain, and if further rounds were inserted, its ops would
// keep their times or move by whole periods. REQUIRES: folded, without jitter; no communication
// takes SMs from compute.
bool is_steady(const PlayedProgram& shorter, const PlayedProgram& longer, const Trace& longer_trace,
               int microbatches);

// Returns the result of `longer` with `more` further rounds. Its `program` stays that of `longer`.
// REQUIRES: is_steady.
PlayedProgram with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                          std::int64_t more);

}  // namespace tandem
