// Executors: they play a Program for real, by the rules that the simulators obey.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/wake_ups.h"
#include "schedule/program/execution.h"
#include "schedule/program/program.h"
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

// Plays all ranks in this process, by one event loop. Links are emulated: an op of a communicator
// takes the time that it is priced at, and no other transfer slows it.
//
// REQUIRES: program is validated, except in tests of what happens when it is not.
Result<Execution> execute_host(const Program& program, const ExecOptions& options);

// Plays in one process a rank, as mpirun or srun started them; messages are real. Returns the
// Execution on rank 0 and nothing on the others. Opens the plugin libtandem_mpi.so; Error::Missing
// if it cannot.
Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options);

// Returns ok if the plugin opens, else why it does not.
Status mpi_available();

// Plays on real GPUs with real kernels and NCCL. There is one process a rank, each on the GPU of
// its local rank, as torchrun, mpirun or srun started them; with share_gpu this process plays all
// ranks on one GPU. Opens the plugin libtandem_cuda.so; Error::Missing if it cannot, or if there is
// no GPU.
Result<std::optional<Execution>> execute_cuda(const Program& program, const ExecOptions& options);

// Returns how many GPUs this process sees, else why none can be used.
Result<int> cuda_available();

}  // namespace tandem
