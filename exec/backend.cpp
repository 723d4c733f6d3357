#include "exec/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "launch/launch.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"host", "mpi", "cuda"};

// Here, where there is a GPU for each.
Result<bool> start_on_gpus(int ranks) {
  ASSIGN_OR_RETURN(const int gpus, cuda_available());
  if (gpus < ranks)
    return Error{fmt::format("found {} GPU{}, expected {}, one a rank: --share-gpu plays all ranks "
                             "on one, torchrun, srun or mpirun start them on many machines",
                             gpus, gpus == 1 ? "" : "s", ranks),
                 Error::Missing};
  ASSIGN_OR_RETURN(const int status, run_ranks(ranks));
  if (status != 0) return Error{"", static_cast<Error::Kind>(status)};
  return true;
}

}  // namespace

std::string_view name(Backend backend) { return kNames[static_cast<std::size_t>(backend)]; }

Backend backend_named(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  CHECK(at != kNames.end());
  return static_cast<Backend>(at - kNames.begin());
}

Result<std::optional<Execution>> execute(const Program& program, Backend backend,
                                         const ExecOptions& options) {
  if (backend == Backend::Cuda) return execute_cuda(program, options);
  if (backend == Backend::Mpi) return execute_mpi(program, options);
  ASSIGN_OR_RETURN(Execution execution, execute_host(program, options));
  return std::optional(std::move(execution));
}

Result<bool> start_ranks(Backend backend, int ranks, const ExecOptions& options) {
  if (backend == Backend::Host || launched_rank() || ranks == 1) return false;
  if (backend == Backend::Cuda)
    return options.share_gpu ? Result<bool>(false) : start_on_gpus(ranks);
  RETURN_IF_ERROR(mpi_available());
  return become_mpirun(ranks);
}

}  // namespace tandem
