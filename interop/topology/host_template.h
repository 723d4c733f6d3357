// HostTemplate: the wires inside a host, all hosts of a cluster being alike, with rates for all.
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
  int nvlinks = 0;        // how many it is
};

struct HostNic {
  std::string device;      // "mlx5_0"; empty: not said
  double GBps = 0;         // what its cable carries
  bool is_stated = false;  // by a file, not by the preset
};

struct HostTemplate {
  int gpus = 0;
  std::vector<HostNic> nics;
  std::vector<HostWire> nvlinks;  // stand first, so that of equally short ways these are taken
  std::vector<HostWire> others;
  double nic_latency_us = 0;    // of a NIC's cable
  double intra_efficiency = 0;  // 0: the preset's
  bool has_switch = false;      // "nvswitch" is one of its sites
  // Between its GPUs, where NVLinks join them without a switch: all then hang on a hub at the rate
  // of the best joined pair.
  std::vector<std::vector<int>> adjacency;
  std::vector<std::string> assumed;
};

// From a file of a node's inside.
Result<HostTemplate> host_of(const ImportedNode& node, const PresetNode& preset);

// As the preset has it, with so many GPUs and NICs.
HostTemplate host_of(const PresetNode& preset, int gpus, int nics);

}  // namespace tandem
