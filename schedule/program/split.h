// Split: a Program whose ranks of one body no longer do the same.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/program/program.h"

namespace tandem {

// Gives the ranks of a body that have other keys than its first one a copy of it, one a key;
// whether any had. Ranks that still share a body may meet others than before: folding sees to that.
// REQUIRES: a key a rank.
bool split_bodies(Program* program, std::span<const std::int32_t> keys);

}  // namespace tandem
