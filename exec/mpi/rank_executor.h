// A rank that plays its part of a Program: it computes here, and sends its messages over a
// Transport.
#pragma once

#include "base/result.h"
#include "exec/execute.h"
#include "exec/mpi/transport.h"
#include "exec/supervise/run_state.h"
#include "schedule/program/program.h"

namespace tandem {

// Plays all iterations and notes them in `state`. All ranks call it. Matrices are multiplied on
// core `core` of those allowed. Returns an Error if a message holds what it should not, or if the
// transport fails. Waits without end for a peer that never comes.
Status play_rank(const Program& program, const ExecOptions& options, int core, Transport* transport,
                 RunState* state);

}  // namespace tandem
