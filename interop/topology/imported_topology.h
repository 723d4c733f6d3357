// ImportedTopology: a cluster as files of other tools describe it, in plain values: the inside of a
// node, the switches and cables between nodes, and which hosts NVLink joins. Rates are per
// direction; 0 or an empty text means that the file does not state the value.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct ImportedGpu {
  std::string pci_id;  // "10de:2330"
  int sm = 0;          // compute capability: 90 for an H100
};

// A network device, or a port of one.
struct ImportedNic {
  std::string name;    // "mlx5_0"
  std::string pci_id;  // of the device
  double GBps = 0;
  int slot = -1;  // equal for the ports of one PCIe device, which share its wire; -1: it has one
};

// A wire inside a node. Its ends are "gpu0" and "nic0" (numbered by place in ImportedNode's lists),
// "nvswitch", or any other name for a PCIe switch or a CPU.
struct NodeWire {
  enum Kind { Nvlink, Pcie, C2c, Sockets };

  std::string from, to;
  Kind kind = Pcie;
  double GBps = 0;  // of all kinds but Nvlink
  int nvlinks = 0;  // of Nvlink: how many NVLinks the wire bundles

  static NodeWire of_nvlinks(std::string from, std::string to, int nvlinks) {
    return {std::move(from), std::move(to), Nvlink, 0, nvlinks};
  }
};

struct ImportedNode {
  std::vector<ImportedGpu> gpus;
  std::vector<ImportedNic> nics;
  std::vector<NodeWire> wires;
  int hosts = 1;                // hosts that share one NVLink switch
  bool states_nvlinks = false;  // false: the file only lists devices
  bool counts_pairs = false;    // true: NVLinks through a switch stand as ones from GPU to GPU
  bool states_gpus = true;      // false: the file only lists network devices
  bool joins_hosts = false;     // NVLinks lead to a switch shared by several hosts (MNNVL)
  std::string kind;             // "NCCL topology dump", ...
};

// A host's port at a switch of the fabric. Without a device it stands for all NICs of the host.
struct FabricPort {
  std::string device;  // "mlx5_5"
  std::string at;      // the switch's name
  double GBps = 0;
};

struct FabricHost {
  std::string name;
  std::vector<FabricPort> ports;
};

struct FabricCable {
  std::string from, to;  // switches
  double GBps = 0;
};

struct ImportedFabric {
  std::vector<std::string> switches;
  std::vector<FabricHost> hosts;
  std::vector<FabricCable> cables;
  bool states_rates = false;  // false: cables and ports get the preset's rates
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
  std::vector<std::string> not_expressed;  // understood, but links have no number for it
};

}  // namespace tandem
