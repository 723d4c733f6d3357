// The libraries that the cuda plugin was built with and has loaded, and the GPUs of this machine,
// as tandem doctor prints them.
#pragma once

#include <string>
#include <vector>

namespace tandem {

struct GpuLibrary {
  std::string name;   // "NCCL"
  std::string built;  // the version that the plugin was built with: "2.28.9"
  std::string found;  // the version that was loaded; empty: there is none
};

struct GpuSoftware {
  std::vector<GpuLibrary> libraries;
  std::vector<std::string> gpus;  // "NVIDIA H100 80GB HBM3, 132 SMs, 85.0 GB, compute ..."
};

// The function of libtandem_cuda.so that returns them.
constexpr const char* kGpuSoftwareSymbol = "tandem_gpu_software";
using GpuSoftwareFunction = GpuSoftware (*)();

}  // namespace tandem
