// A rank that plays its part of a Program: its compute here, its messages over a Transport.
#pragma once

#include "base/result.h"
#include "exec/execute.h"
#include "exec/mpi/transport.h"
#include "exec/supervise/run_state.h"
#include "schedule/program/program.h"

namespace tandem {

// All iterations, noted in `state`. All ranks call it. Matrices are multiplied on core `core` of
// those allowed. An Error where a message holds what it
// should not, or the transport fails; a peer that never comes is waited for without end.
Status play_rank(const Program& program, const ExecOptions& options, int core, Transport* transport,
                 RunState* state);

}  // namespace tandem
