#include "exec/backend.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "exec/launch.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"host", "mpi", "cuda"};

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

Status start_ranks(Backend backend, int ranks) {
  if (backend != Backend::Mpi || launched_rank() || ranks == 1) return Done{};
  RETURN_IF_ERROR(mpi_available());
  return become_mpirun(ranks);
}

}  // namespace tandem
