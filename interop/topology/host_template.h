// HostTemplate: the wires inside a host, with their rates; all hosts of a cluster are alike.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interop/topology/compose.h"

namespace tandem {

struct HostWire {
  std::string from, to;  // sites of the host, without its name
  double GBps = 0, latency_us = 0;
  double efficiency = 0;  // 0: the cluster's for wires inside a node
  int nvlinks = 0;        // how many NVLinks it is
};

struct HostNic {
  std::string device;      // "mlx5_0"; empty: not said
  double GBps = 0;         // what its cable carries
  bool is_stated = false;  // true: by a file, not by the preset
};

struct HostTemplate {
  int gpus = 0;
  std::vector<HostNic> nics;
  std::vector<HostWire> nvlinks;  // stand first, so that of equally short ways these are taken
  std::vector<HostWire> others;
  double nic_latency_us = 0;    // of a NIC's cable
  double intra_efficiency = 0;  // 0: the preset's
  bool has_switch = false;      // "nvswitch" is one of its sites
  // NVLinks between its GPUs if they have no switch. All GPUs then hang on a hub, at the rate of
  // the best joined pair.
  std::vector<std::vector<int>> adjacency;
  std::vector<std::string> assumed;
};

// Makes the template from a file of a node's inside.
Result<HostTemplate> host_of(const ImportedNode& node, const PresetNode& preset);

// Joins NICs of one rate that hang on one PCIe switch, if they are several for each GPU there, to
// one NIC a GPU with their rates together: NCCL sends by all NICs that are as near.
void bundle_nics(HostTemplate* host);

// Makes the template by the preset, with so many GPUs and NICs.
HostTemplate host_of(const PresetNode& preset, int gpus, int nics);

}  // namespace tandem
