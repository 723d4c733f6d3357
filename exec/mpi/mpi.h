// The mpi backend: ranks join and send messages by MPI, through a plugin.
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

// Plays this process's rank of the job that mpirun or srun started; messages are real. Returns the
// Execution on rank 0 and nothing on the others. Error::Missing if the plugin libtandem_mpi.so does
// not open.
Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options);

// Returns ok if the plugin opens, else why it does not.
Status mpi_available();

// Opens a Control for RanksBackend::join of backends without a rendezvous of their own: over TCP if
// rendezvous_of() (launch/rendezvous.h) finds an address, else by MPI's plugin.
Result<std::unique_ptr<Control>> join_ranks(const LaunchedRank& own, Nanoseconds timeout_ns);

}  // namespace tandem
