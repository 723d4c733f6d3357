// Plays a rank's part of a Program on this host's cores, with messages over a Transport.
#pragma once

#include "base/result.h"
#include "exec/execute.h"
#include "exec/mpi/transport.h"
#include "exec/supervise/run_state.h"
#include "schedule/program/program.h"

namespace tandem {

// Plays all iterations and writes their times into `state`. All ranks call it. Matrices are
// multiplied on the `core`-th of the cores that this process may use. Returns an Error if a message
// holds wrong data, or if the transport fails. Waits without end for a peer that never comes.
Status play_rank(const Program& program, const ExecOptions& options, int core, Transport* transport,
                 RunState* state);

}  // namespace tandem
