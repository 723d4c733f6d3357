// Backend: the one place where executors are told apart by name.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

enum class Backend { Host, Mpi, Cuda };

// "host", "mpi", "cuda".
std::string_view name(Backend backend);
// REQUIRES: one of these names.
Backend backend_named(std::string_view name);

// Plays the Program for real. Nothing on ranks that have no results to tell (mpi, cuda).
Result<std::optional<Execution>> execute(const Program& program, Backend backend,
                                         const ExecOptions& options);

// Where the backend wants a process a rank and nobody has started them: mpi starts this process
// again under mpirun, which takes its place; cuda starts them on this machine's GPUs, and gives
// true when they have played: nothing is left to do then. Error::Missing where the backend cannot
// be had; an Error without words where the ranks have said them.
Result<bool> start_ranks(Backend backend, int ranks, const ExecOptions& options);

}  // namespace tandem
