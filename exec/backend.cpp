#include "exec/backend.h"

#include "launch/launch.h"

namespace tandem {

Result<std::optional<Execution>> execute(const Program& program, const Backend& backend,
                                         const ExecOptions& options) {
  return backend.execute(program, options);
}

Result<bool> start_ranks(const Backend& backend, int ranks, const ExecOptions& options) {
  if (!backend.own_processes || ranks == 1) return false;
  // A single launched process does not play a rank yet: srun may have started a shell, say.
  const std::optional<LaunchedRank> launched = launched_rank();
  if (launched && launched->ranks > 1) return false;
  return backend.start(ranks, options);
}

}  // namespace tandem
