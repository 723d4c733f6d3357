// Executors: a Program played for real, by the rules that the simulators obey.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/wake_ups.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// How a transfer both of whose ends share a GPU is carried out: NCCL's send and receive to oneself,
// the copy engine, or not at all: it takes its priced time.
enum class GpuTransfers { Nccl, Copy, Priced };
constexpr std::array<const char*, 3> kGpuTransferNames = {"nccl", "copy", "priced"};

// How an iteration reaches the GPU. Gated: all of it is asked for before it begins, so that the
// host's time to launch stays out. Direct: it begins with the first call. Graph: captured once,
// then launched whole.
//
// What is more than the device's queues hold is not gated: many processes try a graph, then launch
// directly, one process launches directly; the trace says so.
enum class GpuLaunch { Gated, Direct, Graph };
constexpr std::int64_t kGateCalls = 900;  // some 1,000 are told of

// Timed: a compute op takes the time that it is priced at. Gemm: it multiplies matrices.
enum class Compute { Timed, Gemm };

// In which numbers reductions add up: fp32, fp16 or bf16. Empty: fp32.
struct ReductionTypes {
  std::string gradients;  // of data groups, but for norms, which are fp32
  std::string others;     // of tensor groups and the like: partial sums of activations
};

struct ExecOptions {
  Compute compute = Compute::Timed;
  double gemm_scale = 1;      // on m, n and k of every GEMM: its FLOPs go with the third power
  bool full_payload = false;  // every byte of a message is filled and checked, not a part of it
  int warmup = 1;             // iterations that are played and not kept
  int iterations = 5;
  Nanoseconds timeout_ns = 60'000'000'000;  // in which some op must end
  std::uint64_t seed = 1;                   // of payloads and matrices
  // Of the cuda backend alone.
  std::string precision;   // of matrices: fp32, fp16, bf16, fp8; empty: bf16
  bool share_gpu = false;  // all ranks on one GPU, each on SMs of its own
  ReductionTypes reductions;
  GpuTransfers transfers = GpuTransfers::Nccl;
  GpuLaunch launch = GpuLaunch::Gated;
  std::int64_t gate_calls = kGateCalls;  // that a queue of the device takes behind the closed gate
};

// What was played, all ranks unfolded. The iterations differ in times only; their meta lines say
// what was real.
struct Execution {
  std::string backend;
  std::string real;  // "measured: ...; emulated-compute: ..."
  std::vector<Trace> iterations;
  std::int64_t payloads_checked = 0;
  // More streams than a GPU has hardware queues: they may have held each other up, by no rule of
  // the Program's.
  bool shares_queues = false;
  // In the iterations that are kept, of the rank that was latest.
  LateWakeUps late;
  // Why it failed; empty: it did not. The last iteration is partial, then: ops that did not end
  // have end_ns -1.
  std::string failure;
};

// One process, one event loop over all ranks. Links are emulated: an op of a communicator takes
// the time that it is priced at, alone.
//
// REQUIRES: program is validated, but for tests of what happens when it is not.
Result<Execution> execute_host(const Program& program, const ExecOptions& options);

// One process a rank, as mpirun or srun started them; messages are real. Gives the Execution on
// rank 0, and nothing on the others. Opens the plugin libtandem_mpi.so; Error::Missing where it
// cannot.
Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options);

// Whether the plugin opens; else why not.
Status mpi_available();

// GPUs, kernels and NCCL are real. One process a rank, each on the GPU of its local rank, as
// torchrun, mpirun or srun started them; or with share_gpu all ranks in this process on one GPU.
// Opens the plugin libtandem_cuda.so; Error::Missing where it cannot, or no GPU is there.
Result<std::optional<Execution>> execute_cuda(const Program& program, const ExecOptions& options);

// How many GPUs this process sees; else why none can be used.
Result<int> cuda_available();

}  // namespace tandem
