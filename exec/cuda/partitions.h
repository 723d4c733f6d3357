// Partitions: the streams of local ranks that share a GPU. Each rank has SMs of its own if the
// driver has green contexts.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/gpu_plan.h"
#include "exec/cuda/handles.h"

namespace tandem {

// The driver's calls for green contexts. They are looked up at run time, as nothing links to the
// driver.
struct GreenDriver {
  decltype(&::cuDeviceGet) cuDeviceGet = nullptr;
  decltype(&::cuDeviceGetDevResource) cuDeviceGetDevResource = nullptr;
  decltype(&::cuDevSmResourceSplitByCount) cuDevSmResourceSplitByCount = nullptr;
  decltype(&::cuDevResourceGenerateDesc) cuDevResourceGenerateDesc = nullptr;
  decltype(&::cuGreenCtxCreate) cuGreenCtxCreate = nullptr;
  decltype(&::cuGreenCtxDestroy) cuGreenCtxDestroy = nullptr;
  decltype(&::cuGreenCtxStreamCreate) cuGreenCtxStreamCreate = nullptr;

  // Returns an Error if one of them is missing: drivers before 550 have none.
  static Result<GreenDriver> load();
};

// The streams of a plan, and the SMs that they run on.
class Partitions {
 public:
  Partitions() = default;
  ~Partitions();
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  // `own_sms`: each local rank is to have SMs of its own. If there are no green contexts, the
  // streams are plain ones, and share().note says why.
  Status open(const GpuPlan& plan, int device, int device_sms, bool own_sms);
  // Runs kernels that report their SMs. If green contexts do not keep local ranks apart,
  // share().note says so. Waits for the device.
  Status check_sms(const GpuPlan& plan);

  cudaStream_t stream(std::int32_t number) const { return streams_[number].get(); }
  std::size_t streams() const { return streams_.size(); }
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
