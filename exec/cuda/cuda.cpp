// The part of the cuda backend that needs no CUDA: it checks the options and loads the plugin
// libtandem_cuda.so. The plugin's Gpu plays one rank of a job of many processes, or all ranks in
// this process (--share-gpu).
#include "exec/cuda/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/plugin.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/gpu_executor.h"
#include "exec/cuda/software.h"
#include "exec/execute.h"
#include "exec/mpi/mpi.h"
#include "exec/supervise/ranks.h"
#include "launch/launch.h"
#include "launch/standard_output.h"

namespace tandem {
namespace {

// Looks up a function of the plugin. Before that reserves standard output for results, as NCCL
// prints there if NCCL_DEBUG is set.
template <class Function>
Result<Function> plugin_function(const char* name) {
  keep_standard_output();
  const auto symbol = plugin_symbol("libtandem_cuda.so", name);
  if (symbol.ok()) return reinterpret_cast<Function>(*symbol);
  return Error{fmt::format("cuda backend unavailable: {}; --backend host needs no GPU",
                           symbol.error().text()),
               Error::Missing};
}

// Returns how many GPUs this process sees, or an Error that says why none can be used.
Result<int> cuda_available() {
  ASSIGN_OR_RETURN(const GpuCount count, plugin_function<GpuCount>(kGpuCountSymbol));
  const Result<int> gpus = count();
  if (gpus.ok()) return gpus;
  return Error{fmt::format("cuda backend unavailable: {}", gpus.error().text()), Error::Missing};
}

// Opens device `number` of those that this process sees. If it sees only one, as some launchers
// arrange, opens that one.
Result<std::unique_ptr<Gpu>> open_gpu(int number) {
  ASSIGN_OR_RETURN(const int count, cuda_available());
  ASSIGN_OR_RETURN(const OpenGpu open, plugin_function<OpenGpu>(kGpuSymbol));
  ASSIGN_OR_RETURN(Gpu * gpu, open(count == 1 ? 0 : number));
  return std::unique_ptr<Gpu>(gpu);
}

// Returns which parts of a run are measured and which are emulated, for the trace's meta lines.
std::string what_is_real(const ExecOptions& options) {
  const bool timed = options.compute == Compute::Timed;
  const std::string compute =
      timed ? "when ops ran" : fmt::format("matrix products in {} by cuBLASLt", options.precision);
  const std::string emulated = timed ? "; emulated-compute: priced durations, spun" : "";
  if (!options.share_gpu) return fmt::format("measured: {}, messages by NCCL{}", compute, emulated);
  // Texts by GpuTransfers: Nccl, Copy, Priced.
  constexpr std::array<std::string_view, 3> kTransfers = {
      ", transfers by NCCL to oneself", ", transfers by copies within the GPU", ""};
  return fmt::format(
      "measured: {}{}{}; emulated-link: {}; not validated on one GPU: links between GPUs, NCCL's "
      "collectives",
      compute, kTransfers[static_cast<std::size_t>(options.transfers)], emulated,
      options.transfers == GpuTransfers::Priced ? "priced durations"
                                                : "priced durations of collectives");
}

// Asks CUDA for the most hardware queues, as streams that share a queue wait for each other.
// Overwrites any value that the user exported, perhaps for another program. Returns that value if
// it was another; else an empty string. REQUIRES: CUDA has not started.
std::string set_queue_count() {
  constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
  constexpr const char* kMost = "32";
  const char* found = std::getenv(kVariable);
  const std::string given = found == nullptr ? "" : found;
  setenv(kVariable, kMost, 1);
  return given == kMost ? "" : given;
}

// Returns an Error if CUDA_LAUNCH_BLOCKING makes each launch wait for its kernel: the first launch
// behind the closed gate would wait forever.
Status check_environment() {
  const char* found = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (found == nullptr || std::string_view(found).empty() || std::string_view(found) == "0")
    return Done{};
  return Error{
      fmt::format("found CUDA_LAUNCH_BLOCKING={}, expected it unset: a launch would wait "
                  "for what a closed gate holds",
                  found)};
}

Status check_options(const Program& program, const ExecOptions& options) {
  RETURN_IF_ERROR(check_environment());
  constexpr std::array<std::string_view, 4> kPrecisions = {"fp32", "fp16", "bf16", "fp8"};
  if (std::ranges::find(kPrecisions, options.precision) == kPrecisions.end())
    return Error{
        fmt::format("--precision: found {}, expected fp32, fp16, bf16 or fp8", options.precision)};
  if (options.share_gpu && launched_rank() && launched_rank()->ranks > 1)
    return Error{
        fmt::format("found {} processes ({}) and --share-gpu, expected one process, which "
                    "plays all {} ranks",
                    launched_rank()->ranks, launched_rank()->family, program.ranks.size())};
  return Done{};
}

// Plays all ranks in this process, on one GPU.
Result<std::optional<Execution>> execute_shared(const Program& program, const ExecOptions& options,
                                                const RanksBackend& backend) {
  std::vector<Rank> local_ranks;
  RunEnd run_end;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    local_ranks.push_back(static_cast<Rank>(rank));
    run_end.states.emplace_back(RunState(program, program.ranks[rank].body, options.iterations));
  }
  std::vector<RunState*> states;
  for (auto& state : run_end.states) states.push_back(&*state);
  const GpuPlan plan = gpu_plan(program, local_ranks);
  ASSIGN_OR_RETURN(const std::unique_ptr<Gpu> gpu, open_gpu(0));
  const Status played = play_gpu(program, options, plan, gpu.get(), nullptr, states);
  if (!played.ok() && played.error().kind != Error::Failed) return played.error();
  if (!played.ok()) run_end.failure = played.error().text();
  return std::optional(assemble(program, options, backend, std::move(run_end)));
}

// Returns how execute_ranks() describes the backend, joins its processes and plays a rank.
RanksBackend backend_of(const Program& program, const ExecOptions& options) {
  RanksBackend backend;
  backend.name = "cuda";
  backend.real = what_is_real(options);
  backend.launcher =
      fmt::format("torchrun, srun or mpirun -np {} tandem ...", program.ranks.size());
  backend.rendezvous_by = "the job";
  backend.join = [&options](const LaunchedRank& own) {
    return join_ranks(own, options.timeout_ns);
  };
  backend.play = [&](const LaunchedRank& own, Control* control, RunState* state) -> Status {
    ASSIGN_OR_RETURN(std::unique_ptr<Gpu> gpu, open_gpu(own.local_rank));
    const GpuPlan plan = gpu_plan(program, std::vector{static_cast<Rank>(own.rank)});
    const Status played = play_gpu(program, options, plan, gpu.get(), control, {&state, 1});
    if (!played.ok()) (void)gpu.release();  // closing it may wait for the others
    return played;
  };
  return backend;
}

Result<std::optional<Execution>> execute_cuda(const Program& program, const ExecOptions& given) {
  ExecOptions options = given;
  if (options.precision.empty()) options.precision = "bf16";
  RETURN_IF_ERROR(check_options(program, options));
  options.warmup = std::max(1, given.warmup);  // play_gpu() needs its first iteration as a warm-up
  RanksBackend backend = backend_of(program, options);
  if (const std::string found = set_queue_count(); !found.empty())
    backend.real += fmt::format("; CUDA_DEVICE_MAX_CONNECTIONS was {}, and is 32 here", found);
  if (options.share_gpu) return execute_shared(program, options, backend);
  return execute_ranks(program, options, backend);
}

// Starts a process for each rank on this machine, which must have a GPU for each, and waits for
// their ends. Returns true when they have played, or the Error that their exit status stands for;
// false if this process is to play all ranks itself (--share-gpu).
Result<bool> start_on_gpus(int ranks, const ExecOptions& options) {
  if (options.share_gpu) return false;
  ASSIGN_OR_RETURN(const int gpus, cuda_available());
  if (gpus < ranks)
    return Error{fmt::format("found {} GPU{}, expected {}, one a rank: --share-gpu plays all ranks "
                             "on one, torchrun, srun or mpirun start them on many machines",
                             gpus, gpus == 1 ? "" : "s", ranks),
                 Error::Missing};
  const Result<int> ranks_status = run_ranks(ranks);
  return ranks_ended(ranks_status);
}

std::string cuda_state() {
  const Result<int> gpus = cuda_available();
  if (!gpus.ok()) return gpus.error().text();
  return fmt::format("ready: {} GPU{}", *gpus, *gpus == 1 ? "" : "s");
}

std::vector<BackendPart> cuda_parts() {
  std::vector<BackendPart> parts;
  const auto software_here = plugin_function<GpuSoftwareFunction>(kGpuSoftwareSymbol);
  if (!software_here.ok()) return parts;
  const GpuSoftware software = (*software_here)();
  for (const GpuLibrary& library : software.libraries)
    parts.push_back({library.name, fmt::format("built with {}, found {}", library.built,
                                               library.found.empty() ? "none" : library.found)});
  for (std::size_t i = 0; i < software.gpus.size(); ++i)
    parts.push_back({fmt::format("GPU {}", i), software.gpus[i]});
  return parts;
}

constexpr BackendNeed kCudaNeeds[] = {
    {"NVIDIA driver", "libcuda.so.1", /*is_program=*/false, "backend cuda"}};

}  // namespace

Backend cuda_backend() {
  return {.name = "cuda",
          .ranks_are = "a GPU a rank, or one for all",
          .own_processes = true,
          .on_gpus = true,
          .needs = kCudaNeeds,
          .state = cuda_state,
          .parts = cuda_parts,
          .execute = execute_cuda,
          .start = start_on_gpus};
}

}  // namespace tandem
