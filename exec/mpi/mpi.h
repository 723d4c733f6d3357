// The mpi backend: ranks meet and send messages by MPI, which a plugin wraps.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "base/units.h"
#include "exec/backend.h"
#include "exec/execute.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "schedule/program/program.h"

namespace tandem {

Backend mpi_backend();

// Plays in one process a rank, as mpirun or srun started them; messages are real. Returns the
// Execution on rank 0 and nothing on the others. Opens the plugin libtandem_mpi.so; Error::Missing
// if it cannot.
Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options);

// Returns ok if the plugin opens, else why it does not.
Status mpi_available();

// Opens the Control of ranks that have no library to meet by, for `join`. It goes over TCP if
// rendezvous_of() (launch/rendezvous.h) says where, else by MPI's plugin; a single rank is alone.
Result<std::unique_ptr<Control>> join_ranks(const LaunchedRank& own, Nanoseconds timeout_ns);

}  // namespace tandem
