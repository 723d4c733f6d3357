// Slowdown: a Program some of whose parts take longer.
#pragma once

#include <span>

#include "schedule/program/program.h"

namespace tandem {

// A rank's compute takes factors[rank] times as long. Splits the bodies whose ranks now differ, and
// gives whether there were any: ranks that still share a body may then meet others than before, and
// the program cannot be folded. REQUIRES: a factor a rank.
bool slow_ranks(Program* program, std::span<const double> factors);

// The compute of a stage takes `factor` times as long, wherever it is done.
void slow_stage(Program* program, int stage, double factor);

// Communication of a kind carries `factor` times the bytes, so that it is slower wherever it goes.
// To be priced after that.
void slow_kind(Program* program, GroupKind kind, double factor);

}  // namespace tandem
