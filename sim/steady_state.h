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
  Trace trace;
  Metrics metrics;
};

// Whether `longer` is `shorter` with one more round, of so many microbatches, and would be played
// as it was around any number of further ones. REQUIRES: folded, without jitter; no communication
// takes SMs from compute.
bool is_steady(const PlayedProgram& shorter, const PlayedProgram& longer, int microbatches);

// Of `longer` with `more` further rounds. REQUIRES: is_steady.
Metrics with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer, std::int64_t more);

// Ops of all its ranks that are played.
std::int64_t ops_with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                             std::int64_t more);

}  // namespace tandem
