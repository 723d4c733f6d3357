// Compose: joins what files say of a node and of a fabric into one list of cables, with a preset's
// numbers for what no file says.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "interop/topology/imported_topology.h"

namespace tandem {

// A preset's node, in plain numbers; rates are line rates, GB/s a direction.
struct PresetNode {
  std::string preset;
  std::string device;      // its name, as in DeviceSpec
  int gpus = 0, nics = 0;  // of a node
  double intra_GBps = 0, intra_efficiency = 1, intra_latency_us = 0;
  double nic_GBps = 0, inter_efficiency = 1, inter_latency_us = 0;
  double oversubscription = 1;
  std::vector<std::vector<int>> nvlinks;  // between its GPUs if no switch joins them
  bool nvls = false;
};

struct ComposeOptions {
  std::vector<std::string> hosts;  // only these; empty: those wired as most are
  std::int64_t gpus = 0;           // of the job, if there is no fabric; 0: one node
};

struct ComposedCable {
  std::string from, to;
  double GBps = 0, latency_us = 0;
  double efficiency = 0;  // its own; 0: the cluster's
};

// Sites are named NODE.gpu0, NODE.nic0 or NODE.nic_mlx5_0, NODE.nvswitch, NODE.pcie0, NODE.cpu0, a
// node being a host, or all hosts of an NVLink domain; switches between nodes keep their names.
struct ComposedCluster {
  std::vector<ComposedCable> cables;
  std::vector<std::string> hosts;  // in order of their GPUs
  int nodes = 0, gpus_per_node = 0;
  double intra_efficiency = 0;  // restated for the cables' rates; 0: the preset's
  bool nvls = true;             // false: its nodes have no NVLink switch
  std::string nvlinks;          // as cluster.nvlinks has them; empty: a switch, or none
  std::vector<std::string> assumed, left_out;
};

// Errors: hosts that no file has, no host left.
Result<ComposedCluster> compose(const ImportedTopology& topology, const PresetNode& preset,
                                const ComposeOptions& options = {});

}  // namespace tandem
