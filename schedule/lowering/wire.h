// Wiring: makes the communicators of all ranks of a job, and each rank's row.
#pragma once

#include <vector>

#include "schedule/lowering/lower_context.h"
#include "schedule/program/program.h"

namespace tandem {

// Fills in the ranks and communicators of a program that already has a body for each pipeline rank.
// `slots`: by body.
void wire(const Context& context, const std::vector<Slots>& slots, Program* program);

}  // namespace tandem
