#include "sim/engines.h"

namespace tandem {

std::string engine_name(Engine engine) { return engine == Engine::Ideal ? "ideal" : "simgrid"; }

Result<Trace> play(Engine engine, const Program& program, const Cluster& cluster,
                   const Placement& placement, const SimOptions& options) {
  if (engine == Engine::Ideal) return ideal(program, options);
  return simgrid(program, cluster, placement, options);
}

}  // namespace tandem
