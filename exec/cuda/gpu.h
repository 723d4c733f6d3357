// The interface between the executor of a Program and the GPU that carries it out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/cuda/gpu_plan.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// A device and its software, for traces and tables.
struct GpuFacts {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int sms = 0;       // streaming multiprocessors
  Bytes memory_bytes = 0;
  std::string driver;   // "580.159.04"
  std::string runtime;  // "13.0"
  std::string nccl;     // "2.28.9"
  std::string cublas;   // "13.1.0"
};

// The bytes of ncclGetUniqueId(): members of a communicator find each other by them.
using GpuCommId = std::array<std::byte, 128>;

// The job that a Gpu is opened for. REQUIRES: what it refers to outlives the Gpu.
struct GpuJob {
  const Program* program = nullptr;
  const GpuPlan* plan = nullptr;
  ExecOptions options;
  // Returns the id of a communicator of the Program that has several members. It is called once for
  // each, in the order of their numbers, as it may wait for all processes to agree on the id.
  std::function<Result<GpuCommId>(std::int32_t communicator)> id;
  // Is called after each step of open(), of which there may be thousands.
  std::function<void()> on_progress;
};

// How the device's SMs were shared out to the local ranks.
struct GpuShare {
  std::vector<int> sms;  // by local rank
  // True: no two local ranks share an SM (green contexts, read back from the kernels).
  bool disjoint = false;
  std::string note;  // why they share SMs though options.share_gpu: "plain streams: ..."
};

// A message that was received with wrong numbers.
struct GpuFault {
  std::int32_t local_rank = 0;
  std::uint32_t op = 0;
  std::int64_t wrong = 0, checked = 0;  // counts of numbers
};

// A GPU that carries out calls. One thread uses it. A function waits for the device only if its
// comment says so.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuFacts& facts() const = 0;
  // Returns the id of a new communicator, which all its members need.
  virtual Result<GpuCommId> make_id() = 0;
  // Opens streams, events, communicators, buffers and kernels. Waits for the communicators' other
  // members: all processes open them in the order of their numbers.
  virtual Result<GpuShare> open(GpuJob job) = 0;

  // Returns how many kernels a Compute call puts into its stream at most. REQUIRES: open.
  virtual std::int64_t launches(const GpuCall& call) const = 0;
  // Captures a CUDA graph of the calls, for issue(). After an Error the Gpu can still issue calls
  // directly.
  virtual Status capture(std::span<const GpuCall> calls) = 0;
  // Issues all calls of an iteration in order, or the graph of them, which it captures first if
  // there is none. The device begins them when the gate is opened, which may be before or after
  // this. `iteration` counts from 0, warm-up included; payloads depend on it.
  virtual Status issue(std::span<const GpuCall> calls, int iteration, bool by_graph) = 0;
  // Opens the gate. Returns the time of opening, by now_ns().
  virtual Result<Nanoseconds> open_gate() = 0;
  // Returns whether the gate held the iteration issued last until open_gate(). False: issuing
  // stalled for some seconds, as a hardware queue of this or another process was full, and the gate
  // opened by itself to prevent a deadlock. The iteration's times are meaningless then.
  virtual bool held() const = 0;
  // Returns whether an event of the iteration has happened. Returns an Error if the device or a
  // communicator has failed.
  virtual Result<bool> has_happened(std::int32_t event) = 0;
  // Returns the time from the gate's event to this one. REQUIRES: it has happened.
  virtual Result<Nanoseconds> ns_since_gate(std::int32_t event) = 0;
  // Returns the faults of the iteration, if it was checked. REQUIRES: GpuPlan::done has happened.
  virtual Result<std::vector<GpuFault>> faults() = 0;
  // Aborts all communication under way. Nothing else may be called afterwards.
  virtual void abort() = 0;
};

// The function of libtandem_cuda.so that opens device `number` of those that this process sees.
// Error::Missing if there is no driver or no such device.
constexpr const char* kGpuSymbol = "tandem_open_gpu";
using OpenGpu = Result<Gpu*> (*)(int number);
// The function of libtandem_cuda.so that returns how many devices this process sees.
constexpr const char* kGpuCountSymbol = "tandem_gpu_count";
using GpuCount = Result<int> (*)();

}  // namespace tandem
