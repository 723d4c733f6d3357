// Backend: the one place where executors are told apart by name.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "exec/execute.h"
#include "schedule/program.h"

namespace tandem {

enum class Backend { Host, Mpi, Cuda };

// "host", "mpi", "cuda".
std::string_view name(Backend backend);
// REQUIRES: one of these names.
Backend backend_named(std::string_view name);

// Plays the Program for real. Nothing on ranks that have no results to tell (mpi, cuda).
Result<std::optional<Execution>> execute(const Program& program, Backend backend,
                                         const ExecOptions& options);

// Of the mpi backend, where nobody has started the ranks: starts this process again under mpirun,
// which takes its place. Else nothing; an Error::Missing where MPI cannot be had.
Status start_ranks(Backend backend, int ranks);

}  // namespace tandem
