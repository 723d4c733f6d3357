// The functions that the plugin libtandem_cuda.so exports.
#include <fmt/format.h>

#include <cstdlib>

#include "exec/cuda/device.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/software.h"

namespace tandem {
namespace {

// Asks CUDA for the most hardware queues unless the user has set a number, as streams that share a
// queue wait for each other. REQUIRES: CUDA has not started.
void set_queue_count_if_unset() {
  constexpr int kKeepWhatIsSet = 0;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeepWhatIsSet);
}

Result<int> count_devices() {
  set_queue_count_if_unset();
  int count = 0;  // stays 0 where there is no driver
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) return count;
  const std::string why = cuda_failed("cudaGetDeviceCount", code).message;
  if (code == cudaErrorInsufficientDriver) return Error{"no NVIDIA driver: " + why, Error::Missing};
  if (code == cudaErrorNoDevice) return Error{"no NVIDIA GPU: " + why, Error::Missing};
  return Error{why, Error::Missing};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Result<int> tandem_gpu_count() {
  return count_devices();
}

extern "C" __attribute__((visibility("default"))) GpuSoftware tandem_gpu_software() {
  set_queue_count_if_unset();
  return software_here();
}

extern "C" __attribute__((visibility("default"))) Result<Gpu*> tandem_open_gpu(int number) {
  ASSIGN_OR_RETURN(const int count, count_devices());
  if (number < 0 || number >= count)
    return Error{fmt::format("found {} GPU{} here, expected one with the number {}: they count "
                             "from 0",
                             count, count == 1 ? "" : "s", number),
                 Error::Missing};
  ASSIGN_OR_RETURN(std::unique_ptr<Device> device, Device::make(number));
  return static_cast<Gpu*>(device.release());
}

}  // namespace tandem
