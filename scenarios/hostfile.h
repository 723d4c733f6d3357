// Hostfile: the hosts that a job runs on, with the number of ranks on each, as mpirun, DeepSpeed
// and MPICH write it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Reads a file with one host on a line: "host slots=8", "host:8", or "host" for all of its GPUs. A
// host on several lines gets the sum of their slots, and a line without a number counts as one. #
// begins a comment. Errors name file and line.
Result<std::vector<HostSlots>> read_hostfile(const std::string& path);

// Sets the GPU of each rank, and the number of slots, by the cluster's hostfile: "block" fills host
// after host, in the file's order; "cyclic" takes one GPU of each host in turn. Without a hostfile
// nothing is set. Errors: no links_file, hosts that the cluster does not have, more slots than
// GPUs, fewer slots than ranks.
Status place_by_hostfile(ClusterSettings* cluster);

}  // namespace tandem
