// Lowers one pipeline rank: its actions become a body of ops.
#pragma once

#include "schedule/lowering/lower_context.h"
#include "schedule/program/program.h"

namespace tandem {

struct LoweredRank {
  Body body;
  Slots slots;  // of the body
};

LoweredRank lower_rank(const Context& context, int rank);

}  // namespace tandem
