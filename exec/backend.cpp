#include "exec/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/cuda/software.h"
#include "launch/launch.h"

namespace tandem {
namespace {

Result<std::optional<Execution>> on_host(const Program& program, const ExecOptions& options) {
  ASSIGN_OR_RETURN(Execution execution, execute_host(program, options));
  return std::optional(std::move(execution));
}

// Turns the exit status of the ranks into a result. The Error has no words, as the ranks have said
// why they failed.
Result<bool> own_end(const Result<int>& status) {
  if (!status.ok()) return status.error();
  if (*status != 0) return Error{"", static_cast<Error::Kind>(*status)};
  return true;
}

// Starts nothing below another mpirun, which forbids it.
Result<bool> start_by_mpirun(int ranks, const ExecOptions&) {
  const std::optional<LaunchedRank> launched = launched_rank();
  if (launched && launched->family != "Slurm" && launched->family != "torchrun") return false;
  RETURN_IF_ERROR(mpi_available());
  return own_end(run_mpirun(ranks));
}

// Starts the ranks on this machine if it has a GPU for each.
Result<bool> start_on_gpus(int ranks, const ExecOptions& options) {
  if (options.share_gpu) return false;
  ASSIGN_OR_RETURN(const int gpus, cuda_available());
  if (gpus < ranks)
    return Error{fmt::format("found {} GPU{}, expected {}, one a rank: --share-gpu plays all ranks "
                             "on one, torchrun, srun or mpirun start them on many machines",
                             gpus, gpus == 1 ? "" : "s", ranks),
                 Error::Missing};
  return own_end(run_ranks(ranks));
}

std::string mpi_state() {
  const Status mpi = mpi_available();
  return mpi.ok() ? "ready" : mpi.error().text();
}

std::string cuda_state() {
  const Result<int> gpus = cuda_available();
  if (!gpus.ok()) return gpus.error().text();
  return fmt::format("ready: {} GPU{}", *gpus, *gpus == 1 ? "" : "s");
}

std::vector<BackendPart> cuda_parts() {
  std::vector<BackendPart> parts;
  const Result<GpuSoftware> software = gpu_software();
  if (!software.ok()) return parts;
  for (const GpuLibrary& library : software->libraries)
    parts.push_back({library.name, fmt::format("built with {}, found {}", library.built,
                                               library.found.empty() ? "none" : library.found)});
  for (std::size_t i = 0; i < software->gpus.size(); ++i)
    parts.push_back({fmt::format("GPU {}", i), software->gpus[i]});
  return parts;
}

constexpr BackendNeed kMpiNeeds[] = {{"mpirun", "mpirun", true, "run --backend mpi"}};
constexpr BackendNeed kCudaNeeds[] = {{"NVIDIA driver", "libcuda.so.1", false, "backend cuda"}};

constexpr Backend kBackends[] = {
    {.name = "host",
     .ranks_are = "one process plays all ranks, links are emulated",
     .state = [] { return std::string("ready"); },
     .execute = on_host},
    {.name = "mpi",
     .ranks_are = "a process a rank",
     .own_processes = true,
     .needs = kMpiNeeds,
     .state = mpi_state,
     .execute = execute_mpi,
     .start = start_by_mpirun},
    {.name = "cuda",
     .ranks_are = "a GPU a rank, or one for all",
     .own_processes = true,
     .on_gpus = true,
     .needs = kCudaNeeds,
     .state = cuda_state,
     .parts = cuda_parts,
     .execute = execute_cuda,
     .start = start_on_gpus},
};

}  // namespace

std::span<const Backend> backends() { return kBackends; }

const Backend* backend_named(std::string_view name) {
  const auto* const at = std::ranges::find(kBackends, name, &Backend::name);
  return at == std::end(kBackends) ? nullptr : at;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

std::string backends_with_own_processes() {
  std::string text;
  for (const Backend& backend : kBackends) {
    if (!backend.own_processes) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", backend.name, backend.ranks_are);
  }
  return text;
}

Result<std::optional<Execution>> execute(const Program& program, const Backend& backend,
                                         const ExecOptions& options) {
  return backend.execute(program, options);
}

Result<bool> start_ranks(const Backend& backend, int ranks, const ExecOptions& options) {
  if (!backend.own_processes || ranks == 1) return false;
  // A single launched process is the one that asks for a job: a shell that srun started, say.
  const std::optional<LaunchedRank> launched = launched_rank();
  if (launched && launched->ranks > 1) return false;
  return backend.start(ranks, options);
}

}  // namespace tandem
