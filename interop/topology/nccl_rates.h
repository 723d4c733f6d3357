// What NCCL takes wires to carry, GB/s a direction, and GPUs by their PCI ids. From NCCL 2.30,
// src/graph/topo.h and topo.cc; ids from the PCI ID database.
#pragma once

#include <string_view>

namespace tandem {

// One NVLink as NCCL counts, and its line rate; by compute capability. 0: it has none.
double nccl_nvlink_GBps(int sm);
double nvlink_line_GBps(int sm);

// "16.0 GT/s PCIe" or "16 GT/s", and lanes, 0 of which count as 16.
double pcie_GBps(std::string_view speed, double width);

// x16 of the generation that a GPU has.
double pcie_GBps_of(int sm);

// Between two sockets of a host.
double socket_GBps(std::string_view arch, std::string_view vendor, double family, double model);

// A GPU that is known by its PCI id.
struct KnownGpu {
  std::string_view pci_id;  // "10de:2330"
  int sm = 0;
  std::string_view preset;         // of a node of these; empty: there is none
  std::string_view preset_on_aws;  // where its NICs are Amazon's; empty: the same
};

// nullptr: it is not known.
const KnownGpu* known_gpu(std::string_view pci_id);
// The GPU that stands for a compute capability where no id is given; nullptr: none does.
const KnownGpu* usual_gpu(int sm);

// Of the GPUs of a preset that a table entry names; 0: none does.
int sm_of_preset(std::string_view preset);

}  // namespace tandem
