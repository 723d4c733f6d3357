// Split: gives ranks that no longer do the same bodies of their own.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/program/program.h"

namespace tandem {

// Gives ranks whose key differs from that of their body's first rank a copy of the body, one for
// each key. Returns whether there were any. Ranks that still share a body may then meet other ranks
// than before; folding takes care of that.
// REQUIRES: a key a rank.
bool split_bodies(Program* program, std::span<const std::int32_t> keys);

// Returns the ranks and communicators as they were before all splits, without bodies.
Program before_splits(const Program& program);

}  // namespace tandem
