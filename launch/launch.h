// Launch: which rank of a job this process is, as whoever started it says in the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace tandem {

struct LaunchedRank {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // on its host
  std::string family;  // "Open MPI": whose names they are
};

// Of Open MPI, MVAPICH, PMI (MPICH, Intel MPI), torchrun and Slurm the first whose names are all
// there: an mpirun inside a job of torchrun or Slurm is the nearer one. Of Slurm the step's, which
// srun made: a batch script has the job's, and is one process. Nothing: this process was started by
// itself.
using Environment = std::function<const char*(const char*)>;
std::optional<LaunchedRank> launched_rank(const Environment& get);

// Of this process.
std::optional<LaunchedRank> launched_rank();

// Whether an mpirun in this environment starts all ranks on this host: no job of Slurm, PBS, LSF or
// Grid Engine, and no list of hosts, gives it others.
bool mpirun_stays_here(const Environment& get);

// Lets this process, the only rank of its run, start Open MPI without the daemon and the ports that
// would listen on every interface. REQUIRES: MPI has not started, and no other thread runs.
void be_the_only_rank();

// Starts this process's own command line again under mpirun, a process a rank, passes on what it
// prints, and waits until it has ended; it ends with this process. Where mpirun_stays_here() ranks
// meet by shared memory, and no process listens but on loopback. Gives its exit status. An
// Error::Failed where mpirun could not work: too few open files, no folder to write, no standard
// output; or where the results did not come out. Error::Missing: no libtandem_loopback.so.
//
// REQUIRES: no other thread runs.
Result<int> run_mpirun(int ranks);

// Starts this process's own command line `ranks` times on this machine, each with torchrun's names
// and a secret drawn for them (launch/secret.h) in its environment, and waits until all have ended.
// They listen on loopback alone. SIGINT and SIGTERM are passed on. Where one ends badly the others
// are ended after they had the time to tell. Gives the exit status to end with: rank 0's where that
// is not 0, else the greatest; of a rank that a signal ended 128 and the signal. They end with this
// process, too.
//
// REQUIRES: no other thread runs, and no children.
Result<int> run_ranks(int ranks);

// Whether an error that all ranks see is rank 0's to say, and not this one's. Then rank 0 has said
// it, and the launcher has ended the others, by a signal, while they waited here.
bool rank_0_says(const Error& error);

}  // namespace tandem
