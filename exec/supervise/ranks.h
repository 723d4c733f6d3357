// Runs that have a process for each rank. The backends of such runs share this: each process is a
// watchdog with a child that plays; rank 0 also has the coordinator (exec/supervise/watchdog.h),
// and puts the Execution together from the ranks' states.
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

// A backend with a process for each rank. `join` and `play` are called in the child, one after the
// other. If one fails, the resources that it has opened are never closed, as closing may wait for
// ranks that wait for this one.
struct RanksBackend {
  std::string name;           // "mpi"
  std::string real;           // what is measured and what emulated, for traces
  std::string launcher;       // the command that starts ranks: "mpirun -np 4 tandem ..."
  std::string rendezvous_by;  // the library to blame if no rank joins: "MPI"
  // Joins the other ranks. On rank 0 it may return before they have joined.
  std::function<Result<std::unique_ptr<Control>>(const LaunchedRank& own)> join;
  // Plays all iterations and writes their times into the state. `control` is the result of `join`.
  // `play` may wait without end for a peer that never comes: the coordinator ends runs in which no
  // op ends. A backend that sets heeds_stop in RunState::Header polls `stop` there, and returns an
  // Error soon after it is set.
  std::function<Status(const LaunchedRank& own, Control* control, RunState* state)> play;
};

// Plays this process's rank of the job that a launcher started, or a job of one rank. Returns the
// Execution on rank 0 and nothing on the others. If a rank returns an Error::Failed, it is in
// Execution::failure.
//
// REQUIRES: no other thread runs, as this forks.
Result<std::optional<Execution>> execute_ranks(const Program& program, const ExecOptions& options,
                                               const RanksBackend& backend);

// Puts an Execution together from the ranks' states; after a failure, from those that answered.
Execution assemble(const Program& program, const ExecOptions& options, const RanksBackend& backend,
                   RunEnd run_end);

// Turns the exit status of ranks that this process started into a result of Backend::start. The
// Error has no text, as the ranks have printed why they failed.
Result<bool> ranks_ended(const Result<int>& status);

}  // namespace tandem
