#include "job/perturb.h"

#include <set>

#include "schedule/program/slowdown.h"

namespace tandem {

void slow_parts(const VariabilitySettings& variability, Program* program) {
  const Stragglers& slow = variability.stragglers;
  for (const int stage : std::set(slow.stages.begin(), slow.stages.end()))
    slow_stage(program, stage, slow.factor);
  if (!variability.perturbation) return;
  const Perturbation& slower = *variability.perturbation;
  if (slower.stage) slow_stage(program, *slower.stage, slower.factor);
  if (slower.kind) slow_kind(program, *slower.kind, slower.factor);
}

bool slow_stragglers(const VariabilitySettings& variability, const Cluster& cluster,
                     const Placement& placement, Program* program) {
  if (!variability.stragglers.any()) return false;
  return slow_ranks(program,
                    rank_factors(variability.stragglers, variability.seed, cluster, placement),
                    variability.stragglers.stages);
}

}  // namespace tandem
