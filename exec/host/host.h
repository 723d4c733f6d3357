// The host backend: plays all ranks in this process, without GPUs.
#pragma once

#include "base/result.h"
#include "exec/backend.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

Backend host_backend();

// Plays all ranks in this process, by one event loop. Links are emulated: a communication takes its
// priced duration, and other transfers do not slow it.
//
// REQUIRES: program is validated, except in tests of what happens when it is not.
Result<Execution> execute_host(const Program& program, const ExecOptions& options);

}  // namespace tandem
