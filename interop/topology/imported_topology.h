// ImportedTopology: what files of other tools say of a cluster, in plain values: the inside of a
// node, the switches and cables that join nodes, the hosts that an NVLink domain joins.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tandem {

struct ImportedGpu {
  std::string pci_id;  // "10de:2330"; empty: not said
  int sm = 0;          // compute capability, 90 of an H100; 0: not said
};

// A network device, or a port of one.
struct ImportedNic {
  std::string name;    // "mlx5_0"; empty: not said
  std::string pci_id;  // of the device; empty: not said
  double GBps = 0;     // a direction; 0: not said
};

// A wire inside a node. Ends are "gpu0" (by place among the GPUs), "nic0", "nvswitch", or any other
// name: a PCIe switch or a CPU.
struct NodeWire {
  enum Kind { Nvlink, Pcie, C2c, Sockets };

  std::string from, to;
  Kind kind = Pcie;
  double GBps = 0;  // a direction; 0: not said; NVLinks are counted
  int nvlinks = 0;
};

struct ImportedNode {
  std::vector<ImportedGpu> gpus;
  std::vector<ImportedNic> nics;
  std::vector<NodeWire> wires;
  int hosts = 1;                // hosts that share one NVLink switch
  bool states_nvlinks = false;  // false: a list of devices, which has no NVLinks
  bool states_gpus = true;      // false: network devices alone
  bool joins_hosts = false;     // its NVLinks lead to a switch of several hosts (MNNVL)
  std::string kind;             // "NCCL topology dump", ...
};

// A host's way into the fabric. Without a device it stands for all of its NICs.
struct FabricPort {
  std::string device;  // "mlx5_5"
  std::string at;      // the switch
  double GBps = 0;     // a direction; 0: not said
};

struct FabricHost {
  std::string name;
  std::vector<FabricPort> ports;
};

struct FabricCable {
  std::string from, to;  // switches
  double GBps = 0;       // a direction; 0: not said
};

struct ImportedFabric {
  std::vector<std::string> switches;
  std::vector<FabricHost> hosts;
  std::vector<FabricCable> cables;
  bool states_rates = false;  // false: cables and ports have the preset's
};

// Hosts that NVLink joins, as in an NVL72 rack; or what Slurm calls a block.
struct NvlinkDomain {
  std::string name;
  std::vector<std::string> hosts;
};

struct ImportedTopology {
  std::optional<ImportedNode> node;
  std::optional<ImportedFabric> fabric;
  std::vector<NvlinkDomain> domains;
  std::vector<std::string> sources;  // "topo.xml (NCCL topology, 8 GPUs, 8 NICs)"
  std::vector<std::string> assumed;  // sentences about what no file says
  std::vector<std::string> left_out;
};

}  // namespace tandem
