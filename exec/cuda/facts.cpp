// Reads the properties of devices and the versions of the software that drives them. Declared in
// exec/cuda/device.h.
#include <fmt/format.h>

#include <regex>

#include "base/file.h"
#include "exec/cuda/check.h"
#include "exec/cuda/device.h"
#include "exec/cuda/software.h"

namespace tandem {
namespace {

// Formats a version number such as NCCL's or cuBLASLt's: NCCL's 22809 is "2.28.9".
std::string dotted(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// Formats a version number of CUDA: 12040 is "12.4". Empty: none.
std::string cuda_version(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Returns the version of the driver's kernel module, or else the newest CUDA that the driver
// supports.
Result<std::string> driver_version() {
  static const std::regex number("\\b[0-9]+\\.[0-9]+(\\.[0-9]+)?\\b");
  const auto text = read_file("/proc/driver/nvidia/version");
  std::smatch match;
  if (text.ok() && std::regex_search(*text, match, number)) return match.str();
  int version = 0;
  RETURN_IF_CUDA_FAILS(cudaDriverGetVersion, &version);
  return "CUDA " + cuda_version(version);
}

}  // namespace

GpuSoftware software_here() {
  int driver = 0, nccl = 0, gpus = 0;  // stay 0 if a call fails
  (void)cudaDriverGetVersion(&driver);
  (void)ncclGetVersion(&nccl);
  GpuSoftware software;
  software.libraries = {
      {"CUDA", cuda_version(CUDART_VERSION), cuda_version(driver)},
      {"NCCL", dotted(NCCL_VERSION_CODE), dotted(nccl)},
      {"cuBLASLt", dotted(CUBLAS_VERSION), dotted(static_cast<int>(cublasLtGetVersion()))}};
  (void)cudaGetDeviceCount(&gpus);
  for (int i = 0; i < gpus; ++i) {
    cudaDeviceProp gpu{};
    if (cudaGetDeviceProperties(&gpu, i) != cudaSuccess) continue;
    software.gpus.push_back(fmt::format(
        "{}, {} SMs, {:.1f} GB, compute capability {}.{}", gpu.name, gpu.multiProcessorCount,
        static_cast<double>(gpu.totalGlobalMem) / GB, gpu.major, gpu.minor));
  }
  (void)cudaGetLastError();
  return software;
}

Status Device::find_facts() {
  cudaDeviceProp properties{};
  RETURN_IF_CUDA_FAILS(cudaGetDeviceProperties, &properties, number_);
  facts_.name = properties.name;
  facts_.sms = properties.multiProcessorCount;
  facts_.memory_bytes = static_cast<Bytes>(properties.totalGlobalMem);
  ASSIGN_OR_RETURN(facts_.driver, driver_version());
  int runtime = 0, nccl = 0;
  RETURN_IF_CUDA_FAILS(cudaRuntimeGetVersion, &runtime);
  facts_.runtime = cuda_version(runtime);
  if (const ncclResult_t code = ncclGetVersion(&nccl); code != ncclSuccess)
    return nccl_failed("ncclGetVersion", code, nullptr);
  facts_.nccl = dotted(nccl);
  facts_.cublas = dotted(static_cast<int>(cublasLtGetVersion()));
  return Done{};
}

}  // namespace tandem
