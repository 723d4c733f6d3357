// Slowdown: makes parts of a Program take longer.
#pragma once

#include <span>

#include "schedule/program/program.h"

namespace tandem {

// Makes each rank's compute take factors[rank] times as long. Copies bodies whose ranks now differ,
// and returns whether there were any. Ranks that still share a body may then meet other ranks than
// before, so the program can no longer be folded as before. REQUIRES: a factor a rank.
bool slow_ranks(Program* program, std::span<const double> factors);

// Makes the compute of a stage take `factor` times as long, on whatever rank.
void slow_stage(Program* program, int stage, double factor);

// Makes communication of a kind carry `factor` times the bytes, so that it is slower on any link.
// The program must be priced after this.
void slow_kind(Program* program, GroupKind kind, double factor);

}  // namespace tandem
