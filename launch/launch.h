// Launch: finds out from the environment which rank of a job this process is, and starts jobs of
// ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

struct LaunchedRank {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // on its host
  std::string family;  // the launcher whose variables were found: "Open MPI"
};

// Reads the rank from the variables of Open MPI, MVAPICH, PMI (MPICH, Intel MPI), torchrun or
// Slurm. The first of these whose variables are all set counts: an mpirun inside a job of torchrun
// or Slurm is the nearer launcher. Of Slurm only a step counts, which srun starts; a batch script
// has the job's variables and is one process. Returns nothing if no launcher started this process.
using Environment = std::function<const char*(const char*)>;
std::optional<LaunchedRank> launched_rank(const Environment& get);

// Reads this process's environment.
std::optional<LaunchedRank> launched_rank();

// Returns whether an mpirun in this environment starts all ranks on this host: no job of Slurm,
// PBS, LSF or Grid Engine and no list of hosts gives it other hosts.
bool mpirun_is_local(const Environment& get);

// Lets this process, the only rank of its run, start Open MPI without the daemon and the ports that
// would listen on every interface. REQUIRES: MPI has not started, and no other thread runs.
void prepare_only_rank();

// Runs this process's own command line again under mpirun, one process a rank. Passes the ranks'
// output on, waits until they have ended and returns mpirun's exit status. If this process ends, so
// do the ranks. If mpirun_is_local(), they communicate by shared memory and listen on loopback
// only. Error::Failed if mpirun could not work (too few open files, no folder to write, no standard
// output) or if results were lost. Error::Missing without libtandem_loopback.so.
//
// REQUIRES: no other thread runs.
Result<int> run_mpirun(int ranks);

// Runs this process's own command line `ranks` times on this machine and waits until all have
// ended. Each process has torchrun's variables and a secret drawn for them (launch/secret.h) in its
// environment. The ranks listen on loopback alone, and get SIGINT and SIGTERM passed on. If one of
// them fails, the others get time to report it and are then ended. If this process ends, so do the
// ranks.
//
// Returns rank 0's exit status if that is not 0, else the greatest of all. A rank that a signal
// ended counts as 128 + the signal. Returns an Error with that status if a signal ended rank 0
// that this process did not send: rank 0 reports how others failed, but cannot report its own end.
//
// REQUIRES: no other thread runs, and no children.
Result<int> run_ranks(int ranks);

// Names ranks, the first eight by number: "0, 3 and 5 more" of ten.
std::string named_ranks(const std::vector<std::size_t>& ranks);

// Returns whether rank 0, and not this rank, reports an error that all ranks see. Waits up to 5 s:
// if rank 0 has reported the error, the launcher interrupts the wait with the signal that ends the
// others.
bool rank_0_reports(const Error& error);

}  // namespace tandem
