// What a device is and what drives it.
#include <fmt/format.h>

#include <regex>

#include "base/file.h"
#include "exec/cuda/check.h"
#include "exec/cuda/device.h"

namespace tandem {
namespace {

// Of the kernel module; where the system does not tell, the newest CUDA that it can.
Result<std::string> driver_version() {
  static const std::regex number("\\b[0-9]+\\.[0-9]+(\\.[0-9]+)?\\b");
  const auto text = read_file("/proc/driver/nvidia/version");
  std::smatch match;
  if (text.ok() && std::regex_search(*text, match, number)) return match.str();
  int version = 0;
  RETURN_IF_CUDA_FAILS(cudaDriverGetVersion, &version);
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Status Device::find_facts() {
  cudaDeviceProp properties{};
  RETURN_IF_CUDA_FAILS(cudaGetDeviceProperties, &properties, number_);
  facts_.name = properties.name;
  facts_.sms = properties.multiProcessorCount;
  facts_.memory_bytes = static_cast<Bytes>(properties.totalGlobalMem);
  ASSIGN_OR_RETURN(facts_.driver, driver_version());
  int runtime = 0, nccl = 0;
  RETURN_IF_CUDA_FAILS(cudaRuntimeGetVersion, &runtime);
  facts_.runtime = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
  if (const ncclResult_t code = ncclGetVersion(&nccl); code != ncclSuccess)
    return nccl_failed("ncclGetVersion", code, nullptr);
  facts_.nccl = fmt::format("{}.{}.{}", nccl / 10000, nccl / 100 % 100, nccl % 100);
  const auto cublas = static_cast<int>(cublasLtGetVersion());
  facts_.cublas = fmt::format("{}.{}.{}", cublas / 10000, cublas / 100 % 100, cublas % 100);
  return Done{};
}

}  // namespace tandem
