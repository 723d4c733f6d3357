// Slowdown: makes parts of a Program take longer.
#pragma once

#include <span>

#include "schedule/program/program.h"

namespace tandem {

// Makes each rank's compute take factors[rank] times as long, except that of `but_stages`. Ranks of
// a body whose factors differ get copies of the body; returns whether there were any, after which
// the program must be folded anew. REQUIRES: a factor a rank.
bool slow_ranks(Program* program, std::span<const double> factors,
                std::span<const int> but_stages = {});

// Makes the compute of a stage take `factor` times as long, on whatever rank.
void slow_stage(Program* program, int stage, double factor);

// Makes communication of a kind carry `factor` times the bytes, so that it is slower on any link.
// The program must be priced after this.
void slow_kind(Program* program, GroupKind kind, double factor);

}  // namespace tandem
