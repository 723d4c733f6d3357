// What all backends with a process a rank share: a watchdog, its child that plays, the coordinator
// on rank 0 (exec/supervise/watchdog.h), and the Execution put together from what the ranks' states
// say.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "exec/execute.h"
#include "exec/supervise/run_state.h"
#include "exec/supervise/watchdog.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "schedule/program/program.h"

namespace tandem {

// What a backend is. `join` and `play` are called in the child, one after the other; what they open
// is never closed where they fail, as closing may wait for others that wait for this rank.
struct RanksBackend {
  std::string name;           // "mpi"
  std::string real;           // what is measured and what emulated, for traces
  std::string launcher;       // how ranks are started: "mpirun -np 4 tandem ..."
  std::string rendezvous_by;  // what did not start where no rank came: "MPI"
  // Meets the other ranks, or on rank 0 begins to.
  std::function<Result<std::unique_ptr<Control>>(const LaunchedRank& own)> join;
  // All iterations, noted in the state. `control` is what `join` gave. A peer that never comes may
  // be waited for without end: the coordinator ends runs in which no op ends. Who sets heeds_stop
  // there polls RunState::Header::stop, and gives back an Error soon after it is set.
  std::function<Status(const LaunchedRank& own, Control* control, RunState* state)> play;
};

// One process a rank, as somebody started them, or one alone. Gives the Execution on rank 0, and
// nothing on the others. An Error::Failed of a rank stands in Execution::failure.
//
// REQUIRES: no other thread runs: it forks.
Result<std::optional<Execution>> execute_ranks(const Program& program, const ExecOptions& options,
                                               const RanksBackend& backend);

// What the ranks' states say, put together: of a run that failed what there is.
Execution assemble(const Program& program, const ExecOptions& options, const RanksBackend& backend,
                   RunEnd run_end);

// The Control of ranks that have no library to meet by: over TCP where rendezvous_of() (in
// launch/rendezvous.h) says, else by MPI's plugin; alone where there is one rank. For `join`.
Result<std::unique_ptr<Control>> join_ranks(const LaunchedRank& own, Nanoseconds timeout_ns);

}  // namespace tandem
