// Composes a cluster from files: joins one host's inside (say, NCCL's XML dump) and the network
// between hosts (say, ibnetdiscover's output) into one list of cables. Where no file has a number,
// a preset's is used.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "interop/topology/imported_topology.h"

namespace tandem {

// A preset's node as plain numbers. Rates are line rates in GB/s, per direction.
struct PresetNode {
  std::string preset;
  std::string device;      // the GPU's name, as in DeviceSpec
  int gpus = 0, nics = 0;  // of a node
  double intra_GBps = 0, intra_efficiency = 1, intra_latency_us = 0;
  double nic_GBps = 0, inter_efficiency = 1, inter_latency_us = 0;
  bool nic_is_set = false;               // nic_GBps is the user's, of each NIC
  bool oversubscription_is_set = false;  // by the user
  double oversubscription = 1;
  std::vector<std::vector<int>> nvlinks;  // [i][j]: how many join GPUs i and j, if no switch does
  bool nvls = false;
};

struct ComposeOptions {
  std::vector<std::string> hosts;  // only these; empty: all with the usual number of ports
  std::int64_t gpus = 0;           // of the job, used if no file names hosts; 0: those of one node
};

struct ComposedCable {
  std::string from, to;
  double GBps = 0, latency_us = 0;
  double efficiency = 0;  // reached share of GBps; 0: the cluster's
};

// Cables join devices named NODE.gpu0, NODE.nic0 or NODE.nic_mlx5_0, NODE.nvswitch, NODE.pcie0 and
// NODE.cpu0, and network switches, which keep their names. A node is a host or, where NVLink joins
// several hosts (an NVL72 rack), all of these.
struct ComposedCluster {
  std::vector<ComposedCable> cables;
  std::vector<std::string> hosts;  // in order of their GPUs
  int nodes = 0, gpus_per_node = 0;
  double intra_efficiency = 0;  // reached share of the rates of NVLinks; 0: the preset's
  bool nvls = true;             // false: nodes have no NVLink switch
  std::string nvlinks;  // value of cluster.nvlinks; empty: a switch joins the GPUs, or no NVLink
  std::vector<std::string> assumed, left_out;  // notes for the user
};

// Errors: no file has a host that the options name; no host is left.
Result<ComposedCluster> compose(const ImportedTopology& topology, const PresetNode& preset,
                                const ComposeOptions& options = {});

}  // namespace tandem
