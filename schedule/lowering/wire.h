// Wiring: the communicators of all ranks of a job, and each rank's row.
#pragma once

#include <vector>

#include "schedule/lowering/lower_context.h"
#include "schedule/program/program.h"

namespace tandem {

// Fills ranks and communicators of a program whose bodies are there, one a pipeline rank, with
// these slots.
void wire(const Context& context, const std::vector<Slots>& slots, Program* program);

}  // namespace tandem
