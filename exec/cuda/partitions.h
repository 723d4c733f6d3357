// Partitions: the streams of local ranks that share a GPU. If the driver has green contexts (CUDA
// contexts that are limited to some of the SMs), each rank has SMs of its own.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/gpu_plan.h"
#include "exec/cuda/handles.h"

namespace tandem {

// The driver's functions for green contexts. They are looked up at run time, as nothing links to
// the driver.
struct GreenDriver {
  decltype(&::cuDeviceGet) cuDeviceGet = nullptr;
  decltype(&::cuDeviceGetDevResource) cuDeviceGetDevResource = nullptr;
  decltype(&::cuDevSmResourceSplitByCount) cuDevSmResourceSplitByCount = nullptr;
  decltype(&::cuDevResourceGenerateDesc) cuDevResourceGenerateDesc = nullptr;
  decltype(&::cuGreenCtxCreate) cuGreenCtxCreate = nullptr;
  decltype(&::cuGreenCtxDestroy) cuGreenCtxDestroy = nullptr;
  decltype(&::cuGreenCtxStreamCreate) cuGreenCtxStreamCreate = nullptr;

  // Returns an Error if a function is missing. Drivers before 550 have none of them.
  static Result<GreenDriver> load();
};

// The streams of a plan, and the SMs that they run on.
class Partitions {
 public:
  Partitions() = default;
  ~Partitions();
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  // Makes the streams. `own_sms`: on SMs of its own for each local rank. If green contexts fail,
  // the streams are plain ones, and share().note says why.
  Status open(const GpuPlan& plan, int device, int device_sms, bool own_sms);
  // Runs kernels that record the SMs they run on, and sets share().disjoint. If local ranks do
  // share SMs in spite of green contexts, share().note says so. Waits for the device.
  Status check_sms(const GpuPlan& plan);

  cudaStream_t stream(std::int32_t number) const { return streams_[number].get(); }
  const std::vector<Stream>& streams() const { return streams_; }
  const GpuShare& share() const { return share_; }

 private:
  Status open_green(const GpuPlan& plan, int device);
  Status open_plain(const GpuPlan& plan, int device_sms);
  void close();
  Status try_events() const;

  GreenDriver driver_;
  std::vector<CUgreenCtx> contexts_;  // by local rank; empty: plain streams
  std::vector<Stream> streams_;       // by number in the plan
  GpuShare share_;
};

}  // namespace tandem
