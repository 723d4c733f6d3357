// Steady state: extrapolates an iteration of many microbatches from two of few.
//
// A full pipeline repeats itself every few microbatches: a round. If the times of its rounds repeat
// to the nanosecond, one more round delays what comes after it by one period and changes nothing
// else. So two iterations that differ by one round give an iteration of any number of rounds
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

// Returns whether further rounds may be added: `longer` is `shorter` with one more round, of so
// many microbatches of each chain, and its ops would keep their times, or move by whole periods,
// around any number of further ones. REQUIRES: folded, without jitter; no communication takes SMs
// from compute.
bool is_steady(const PlayedProgram& shorter, const PlayedProgram& longer, const Trace& of_longer,
               int microbatches);

// Returns what `longer` gives with `more` further rounds. Its `program` stays that of `longer`.
// REQUIRES: is_steady.
PlayedProgram with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                          std::int64_t more);

}  // namespace tandem
