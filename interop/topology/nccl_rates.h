// The rates that NCCL assumes for wires, in GB/s per direction (NCCL 2.30, src/graph/topo.h and
// topo.cc), and GPUs by their PCI ids (from the PCI ID database).
#pragma once

#include <string_view>

namespace tandem {

// Return the rate that NCCL assumes for one NVLink of a GPU, and the link's line rate, by compute
// capability (90: H100). 0: such GPUs have no NVLink.
double nccl_nvlink_GBps(int sm);
double nvlink_line_GBps(int sm);

constexpr int kMostNvlinks = 18;  // of one GPU of any kind
// Returns the most NVLinks that a GPU of this compute capability has; of an unknown one, of any.
int most_nvlinks(int sm);

// Returns the rate of a PCIe link of speed "16.0 GT/s PCIe" or "16 GT/s" and `width` lanes; 0
// lanes: 16.
double pcie_GBps(std::string_view speed, double width);

// Returns the rate of 16 lanes of the PCIe generation that GPUs of this compute capability have.
double pcie_GBps_of(int sm);

// Returns the rate between two sockets of a host.
double socket_GBps(std::string_view arch, std::string_view vendor, double family, double model);

// A GPU by its PCI id.
struct KnownGpu {
  std::string_view pci_id;  // "10de:2330"
  int sm = 0;
  std::string_view preset;         // of a node of such GPUs; empty: there is none
  std::string_view preset_on_aws;  // if its NICs are Amazon's; empty: the same
};

// Returns the GPU with this PCI id; null: it is not in the table.
const KnownGpu* known_gpu(std::string_view pci_id);
// Returns the most usual GPU of a compute capability; null: the table has none.
const KnownGpu* usual_gpu(int sm);

// Returns the compute capability of a device by its name, such as "A100-SXM4-80GB"; 0: it is not
// NVIDIA's, or not known.
int sm_of_device(std::string_view name);

}  // namespace tandem
