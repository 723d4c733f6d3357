// Split: copies bodies for ranks that shared one body and no longer do the same.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/program/program.h"

namespace tandem {

// Gives ranks of a body whose keys differ copies of the body, one for each further key. Returns
// whether it made any copy. Ranks that still share a body may now communicate with ranks of
// different bodies, so an earlier RankFolding no longer holds. REQUIRES: a key a rank.
bool split_bodies(Program* program, std::span<const std::int32_t> keys);

// Returns the ranks and communicators as they were before all splits, without bodies.
Program before_splits(const Program& program);

}  // namespace tandem
