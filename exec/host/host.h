// The host backend: all ranks in this process.
#pragma once

#include "base/result.h"
#include "exec/backend.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

Backend host_backend();

// Plays all ranks in this process, by one event loop. Links are emulated: an op of a communicator
// takes the time that it is priced at, and no other transfer slows it.
//
// REQUIRES: program is validated, except in tests of what happens when it is not.
Result<Execution> execute_host(const Program& program, const ExecOptions& options);

}  // namespace tandem
