// Executors play a Program for real, by the rules that the simulators obey: their options, and what
// they give.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "exec/wake_ups.h"
#include "schedule/program/execution.h"
#include "traces/trace.h"

namespace tandem {

// How an iteration reaches the GPU. Gated: all of its calls are issued before it begins, so that
// the host's time to launch is not measured. Direct: it begins with the first call. Graph: it is
// captured once, then launched whole.
//
// An iteration with more calls than the device's queues hold cannot be gated. Many processes then
// try a graph, and launch directly if there is none; one process launches directly. The trace says
// so.
enum class GpuLaunch { Gated, Direct, Graph };
constexpr std::int64_t kGateCalls = 900;  // calls in a queue; users report that some 1,000 fit

// The number type that reductions add up in: fp32, fp16 or bf16. Empty: fp32.
struct ReductionTypes {
  std::string gradients;  // of data groups; norms are always fp32
  std::string others;     // of tensor groups and the like: partial sums of activations
};

struct ExecOptions {
  Compute compute = Compute::Timed;
  double gemm_scale = 1;      // factor on m, n and k of every GEMM: FLOPs go with its third power
  bool full_payload = false;  // true: every byte of a message is filled and checked, not a part
  int warmup = 1;             // iterations that are played first and not kept
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

// The result of a run, all ranks unfolded. The iterations differ in times only; their meta lines
// say what was real.
struct Execution {
  std::string backend;
  std::string real;  // "measured: ...; emulated-compute: ..."
  std::vector<Trace> iterations;
  std::int64_t payloads_checked = 0;
  // The run had more streams than a GPU has hardware queues: they may have held each other up,
  // though no rule of the Program says so.
  bool shares_queues = false;
  // Late wake-ups of the kept iterations, on the rank that was latest.
  LateWakeUps late;
  // The reason why the run failed; empty: it did not. The last iteration of a failed run is
  // partial: ops that did not end have end_ns -1.
  std::string failure;
};

}  // namespace tandem
