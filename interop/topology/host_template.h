// HostTemplate: the wires inside a host, with their rates; all hosts of a cluster are alike.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interop/topology/compose.h"

namespace tandem {

struct HostWire {
  std::string from, to;  // devices without the host's name: "gpu0", "nic1", "nvswitch"
  double GBps = 0, latency_us = 0;
  double efficiency = 0;  // 0: the cluster's for wires inside a node
  int nvlinks = 0;        // how many NVLinks the wire bundles
};

struct HostNic {
  std::string device;      // "mlx5_0"; empty: unknown
  double GBps = 0;         // of its cable
  bool is_stated = false;  // true: by a file, not by the preset
  int slot = -1;           // as in ImportedNic
};

struct HostTemplate {
  int gpus = 0;
  std::vector<HostNic> nics;
  std::vector<HostWire> nvlinks;  // added first: among equally short routes the first is taken
  std::vector<HostWire> others;
  double nic_latency_us = 0;    // of a NIC's cable
  double intra_efficiency = 0;  // 0: the preset's
  bool has_switch = false;      // "nvswitch" is one of its devices
  // NVLinks between GPUs i and j of a host without an NVLink switch. Its wires then join all GPUs
  // at one hub, at the rate of the pair with most NVLinks.
  std::vector<std::vector<int>> adjacency;
  std::vector<std::string> assumed;
};

// Makes the template from a file about a node's inside; the preset fills its gaps. `has_rates`: a
// file of the fabric states the rates at which NICs are cabled.
Result<HostTemplate> host_of(const ImportedNode& node, const PresetNode& preset, bool has_rates);

// Merges NICs of equal rate on one PCIe switch, where there are several for each GPU, into one NIC
// per GPU with the sum of their rates, as NCCL sends through all of a GPU's nearest NICs.
void bundle_nics(HostTemplate* host);

// Joins the ports of a PCIe device by a switch "slot0" above them, so that they share its one wire.
void share_slots(HostTemplate* host);

// Makes the template from the preset alone, with the given numbers of GPUs and NICs.
HostTemplate host_of(const PresetNode& preset, int gpus, int nics);

}  // namespace tandem
