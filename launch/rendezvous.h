// Rendezvous: where the ranks of a job find each other, as whoever started it says in the
// environment.
#pragma once

#include <string>

#include "base/result.h"
#include "launch/interfaces.h"
#include "launch/launch.h"
#include "launch/secret.h"

namespace tandem {

struct Rendezvous {
  std::string host;  // a name or an address: rank 0's; empty: they meet by MPI
  int port = 0;      // where rank 0 listens, or one of the next where that is taken
  std::string run;   // what the launcher calls the job; tells another's ranks from its own
  Secret secret;     // job_secret(); whoever knows it may join
  InterfaceChoice interfaces;  // on which rank 0 listens
};

// Without the secret. TANDEM_PORT goes before every other port. torchrun: MASTER_ADDR, MASTER_PORT,
// and the port after it where torchrun's agent listens on that one. Slurm: MASTER_ADDR,
// MASTER_PORT, or the step's first node and a port made of the job's number. Others: MASTER_ADDR,
// MASTER_PORT, or MPI.
Result<Rendezvous> rendezvous_of(const Environment& get);

// Of Slurm's "node[003-007,009],gpu12": "node003". Empty: there is none.
std::string first_host(const std::string& node_list);

}  // namespace tandem
