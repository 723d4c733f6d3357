// The options and results of executors, which play a Program in real time by the same rules as the
// simulators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "exec/wake_ups.h"
#include "schedule/program/execution.h"
#include "traces/trace.h"

namespace tandem {

// How the calls of an iteration are issued to the GPU. Gated: all calls are issued before the first
// may begin, so that the host's launch overhead is not measured. Direct: calls begin as they are
// issued. Graph: the calls are captured once as a CUDA graph, which each iteration launches.
//
// Gated falls back if an iteration has more calls than the device's queues hold: to Graph in a job
// of many processes, to Direct if there is no graph or only one process. The trace's meta lines say
// so.
enum class GpuLaunch { Gated, Direct, Graph };
constexpr std::int64_t kGateCalls = 900;  // calls in a hardware queue; users report that 1,000 fit

// The number types in which NCCL's reductions add up: fp32, fp16 or bf16. Empty: fp32.
struct ReductionTypes {
  std::string gradients;  // in data-parallel groups; gradient norms are always fp32
  std::string others;     // in all other groups: partial sums of activations
};

struct ExecOptions {
  Compute compute = Compute::Timed;
  double gemm_scale = 1;      // factor on m, n and k of every GEMM: FLOPs go with its third power
  bool full_payload = false;  // fill and check every byte of a message, not a sample
  int warmup = 1;             // iterations that are played first and not recorded
  int iterations = 5;
  Nanoseconds timeout_ns = 60'000'000'000;  // some op must end within this time
  std::uint64_t seed = 1;                   // of payloads and matrices
  // Only the cuda backend reads these.
  std::string precision;   // of matrices: fp32, fp16, bf16, fp8; empty: bf16
  bool share_gpu = false;  // all ranks on one GPU, each on SMs of its own
  ReductionTypes reductions;
  GpuTransfers transfers = GpuTransfers::Nccl;
  GpuLaunch launch = GpuLaunch::Gated;
  std::int64_t gate_calls = kGateCalls;  // calls that a device queue takes behind the closed gate
};

// The result of a run of all ranks, none folded. The traces of its iterations differ in times only;
// their meta lines say what was measured and what emulated.
struct Execution {
  std::string backend;
  std::string real;  // "measured: ...; emulated-compute: ..."
  std::vector<Trace> iterations;
  std::int64_t payloads_checked = 0;
  // The run had more streams than a GPU has hardware queues. So ops may have waited for each other
  // that are independent in the Program.
  bool shares_queues = false;
  // Late wake-ups of the recorded iterations, on the rank that was latest.
  LateWakeUps late;
  // The reason of a failure; empty if the run succeeded. The last iteration of a failed run is
  // partial: ops that did not end have end_ns -1.
  std::string failure;
};

}  // namespace tandem
