// Rates that NCCL takes wires to carry, GB/s a direction, and GPUs by their PCI ids. From NCCL
// 2.30, src/graph/topo.h and topo.cc; ids from the PCI ID database.
#pragma once

#include <string_view>

namespace tandem {

// Return the rate of one NVLink as NCCL counts it, and its line rate, by compute capability. 0: it
// has none.
double nccl_nvlink_GBps(int sm);
double nvlink_line_GBps(int sm);

// Returns the rate of "16.0 GT/s PCIe" or "16 GT/s" with so many lanes, 0 of which count as 16.
double pcie_GBps(std::string_view speed, double width);

// Returns the rate of x16 of the generation that a GPU has.
double pcie_GBps_of(int sm);

// Returns the rate between two sockets of a host.
double socket_GBps(std::string_view arch, std::string_view vendor, double family, double model);

// A GPU by its PCI id.
struct KnownGpu {
  std::string_view pci_id;  // "10de:2330"
  int sm = 0;
  std::string_view preset;         // of a node of these; empty: there is none
  std::string_view preset_on_aws;  // if its NICs are Amazon's; empty: the same
};

// Returns null if it is not known.
const KnownGpu* known_gpu(std::string_view pci_id);
// Returns the GPU that stands for a compute capability if no id is given; null: none does.
const KnownGpu* usual_gpu(int sm);

// Returns the compute capability of a device by its name, such as "A100-SXM4-80GB"; 0: it is not
// NVIDIA's, or not known.
int sm_of_device(std::string_view name);

}  // namespace tandem
