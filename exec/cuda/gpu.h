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

// What a device is, and what drives it: for traces and tables.
struct GpuFacts {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int sms = 0;       // streaming multiprocessors
  Bytes memory_bytes = 0;
  std::string driver;   // "580.159.04"
  std::string runtime;  // "13.0"
  std::string nccl;     // "2.28.9"
  std::string cublas;   // "13.1.0"
};

// What ncclGetUniqueId gives: members of one communicator meet by it.
using GpuCommId = std::array<std::byte, 128>;

// What a Gpu is opened for. What it refers to outlives the Gpu.
struct GpuJob {
  const Program* program = nullptr;
  const GpuPlan* plan = nullptr;
  ExecOptions options;
  // Of a communicator of the Program that has several members; asked for in the order of their
  // numbers, each once, as all processes may have to agree on it.
  std::function<Result<GpuCommId>(std::int32_t communicator)> id;
  std::function<void()> lives;  // said after each step of opening: there may be thousands
};

// What was given: streams of local ranks may have SMs of their own.
struct GpuShare {
  std::vector<int> sms;  // by local rank
  bool disjoint =
      false;         // no two local ranks share an SM (green contexts, read back from the kernels)
  std::string note;  // why not, where it was asked for: "plain streams: ..."; else empty
};

// A payload that is not what it should be.
struct GpuFault {
  std::int32_t local_rank = 0;
  std::uint32_t op = 0;
  std::int64_t wrong = 0, checked = 0;  // words, or numbers of 16 bits
};

// One thread calls it. Nothing waits for the device but where it says so.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuFacts& facts() const = 0;
  // A new communicator's id, which all its members need.
  virtual Result<GpuCommId> make_id() = 0;
  // Streams, events, communicators, buffers, kernels. Waits for the communicators' other members:
  // all processes open them in the order of their numbers.
  virtual Result<GpuShare> open(GpuJob job) = 0;

  // What a Compute call puts into its stream: so many kernels. REQUIRES: open.
  virtual std::int64_t launches(const GpuCall& call) const = 0;
  // Makes a graph of the calls, for issue(). An Error where that cannot be; all else goes on.
  virtual Status capture(std::span<const GpuCall> calls) = 0;
  // Asks for all calls of an iteration, in order, or for the graph of them. They begin when the
  // gate is opened, before or after this. `iteration` is counted from 0, warm-up included; payloads
  // depend on it.
  virtual Status issue(std::span<const GpuCall> calls, int iteration, bool by_graph) = 0;
  // Opens the gate: when, by now_ns().
  virtual Result<Nanoseconds> open_gate() = 0;
  // Whether the gate held what was asked for last until open_gate(). It opens by itself, so that
  // nobody waits for what it holds, where no call has been issued for some seconds: the device's
  // queues are full, or those of another process. Times mean nothing, then.
  virtual bool held() const = 0;
  // Whether an event of the iteration has happened. An Error where the device or a communicator has
  // failed.
  virtual Result<bool> has_happened(std::int32_t event) = 0;
  // From the gate's event to this one. REQUIRES: it has happened.
  virtual Result<Nanoseconds> ns_since_gate(std::int32_t event) = 0;
  // Of the iteration, if it was checked. REQUIRES: GpuPlan::done has happened.
  virtual Result<std::vector<GpuFault>> faults() = 0;
  // Takes back what communicators have under way; nothing else is called afterwards.
  virtual void abort() = 0;
};

// What libtandem_cuda.so exports under this name: device `number` of those that this process sees.
// An Error::Missing where there is no driver or no such device.
constexpr const char* kGpuSymbol = "tandem_open_gpu";
using OpenGpu = Result<Gpu*> (*)(int number);
// And how many there are.
constexpr const char* kGpuCountSymbol = "tandem_gpu_count";
using GpuCount = Result<int> (*)();

}  // namespace tandem
