// Split: a Program whose ranks of one body no longer do the same.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/program/program.h"

namespace tandem {

// Ranks whose key differs from that of their body's first rank get a copy of the body, one for each
// key. Gives whether there were any. Ranks that still share a body may meet others than before:
// folding takes care of that.
// REQUIRES: a key a rank.
bool split_bodies(Program* program, std::span<const std::int32_t> keys);

// The ranks and communicators as they were before all splits; without bodies.
Program before_splits(const Program& program);

}  // namespace tandem
