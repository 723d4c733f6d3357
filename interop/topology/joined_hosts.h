// JoinedHosts: which hosts a composed cluster has, and which of them make a node.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interop/topology/compose.h"
#include "interop/topology/host_template.h"

namespace tandem {

// A node of the composed cluster: one host, or the hosts of an NVLink domain.
struct JoinedHosts {
  std::string name;
  std::vector<FabricHost> hosts;
};

struct ClusterHosts {
  HostTemplate inside;             // of every host
  std::vector<JoinedHosts> nodes;  // as many hosts in each
  ImportedFabric network;          // the switches that they hang on, and the cables between these
  std::string core;  // the name of a made-up switch above all hosts or trees that no file joins
};

// Takes hosts from the fabric's file, else from Slurm's blocks, else from --hosts; else it makes
// them up. A block is Slurm's word for an NVLink domain. Adds notes to the cluster.
Result<ClusterHosts> cluster_hosts(const ImportedTopology& topology, const PresetNode& preset,
                                   const ComposeOptions& options, ComposedCluster* notes);

}  // namespace tandem
