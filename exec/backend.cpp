#include "exec/backend.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "exec/launch.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"host", "mpi", "cuda"};

Error no_cuda() { return {"cuda backend unavailable: this build has none", Error::Missing}; }

}  // namespace

std::string_view name(Backend backend) { return kNames[static_cast<std::size_t>(backend)]; }

Backend backend_named(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  CHECK(at != kNames.end());
  return static_cast<Backend>(at - kNames.begin());
}

Result<std::optional<Execution>> execute(const Program& program, Backend backend,
                                         const ExecOptions& options) {
  if (backend == Backend::Cuda) return no_cuda();
  if (backend == Backend::Mpi) return execute_mpi(program, options);
  ASSIGN_OR_RETURN(Execution execution, execute_host(program, options));
  return std::optional(std::move(execution));
}

Status start_ranks(Backend backend, int ranks, const ExecOptions& options) {
  if (backend == Backend::Host) return Done{};
  if (backend == Backend::Cuda) return no_cuda();
  if (launched_rank() || ranks == 1 || options.share_gpu) return Done{};
  RETURN_IF_ERROR(mpi_available());
  return become_mpirun(ranks);
}

}  // namespace tandem
