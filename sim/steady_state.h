// SteadyState: an iteration of many microbatches from two of few.
//
// A full pipeline does the same every few microbatches: a round. Where the times of its rounds
// repeat to the nanosecond, one more round moves what comes after it, and changes nothing else. So
// an iteration of any number of rounds follows from two that differ by one (docs/design.md,
// "Steady state").
#pragma once

#include <cstdint>

#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/trace.h"

namespace tandem {

// A Program on the ideal engine, and what its ranks' iterations come to.
struct PlayedProgram {
  const Program* program = nullptr;
  Metrics metrics;
  Nanoseconds iteration_ns = 0;
  std::int64_t ops = 0;
};

PlayedProgram measured(const Program& program, const Trace& trace);

// Whether `longer` is `shorter` with one more round, of so many microbatches of each chain, and
// would be played as it was around any number of further ones. REQUIRES: folded, without jitter; no
// communication takes SMs from compute.
bool is_steady(const PlayedProgram& shorter, const PlayedProgram& longer, const Trace& of_longer,
               int microbatches);

// `longer` with `more` further rounds; the Program stays. REQUIRES: is_steady.
PlayedProgram with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                          std::int64_t more);

}  // namespace tandem
