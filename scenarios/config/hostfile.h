// Hostfile: which hosts a job runs on, and with how many ranks on each, as mpirun, DeepSpeed and
// MPICH write it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// A line a host: "host slots=8", "host:8", or "host" for all of its GPUs; a host on several lines
// has a GPU for each. What is behind # is a comment. Errors name file and line.
Result<std::vector<HostSlots>> read_hostfile(const std::string& path);

// Where the ranks are by the cluster's hostfile: block fills host after host, in the file's order;
// cyclic deals round over them. Without a hostfile nothing is set. Errors: no links_file, hosts
// that the cluster does not have, more slots than GPUs, fewer than ranks.
Status place_by_hostfile(ClusterSettings* cluster);

}  // namespace tandem
