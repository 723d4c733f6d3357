// Rendezvous: finds out from the environment where the ranks of a job meet.
#pragma once

#include <string>

#include "base/result.h"
#include "launch/interfaces.h"
#include "launch/launch.h"
#include "launch/secret.h"

namespace tandem {

struct Rendezvous {
  std::string host;            // rank 0's name or address; empty: they meet by MPI
  int port = 0;                // rank 0 listens here, or at one of the next if it is taken
  std::string run;             // the launcher's name of the job; keeps out ranks of others
  Secret secret;               // job_secret(); whoever knows it may join
  InterfaceChoice interfaces;  // rank 0 listens on these
};

// Finds the rendezvous, without the secret. TANDEM_PORT goes before every other port.
//   torchrun   MASTER_ADDR, MASTER_PORT; the next port if torchrun's agent listens on that one
//   Slurm      MASTER_ADDR, MASTER_PORT; else the step's first node, and a port made of the job's
//              number
//   others     MASTER_ADDR, MASTER_PORT; else they meet by MPI
Result<Rendezvous> rendezvous_of(const Environment& get);

// Returns the first host of Slurm's list: "node003" of "node[003-007,009],gpu12". Returns "" if
// there is none.
std::string first_host(const std::string& node_list);

}  // namespace tandem
