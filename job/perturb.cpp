#include "job/perturb.h"

#include "schedule/program/slowdown.h"

namespace tandem {

void slow_parts(const VariabilitySettings& variability, Program* program) {
  for (const int stage : variability.stragglers.stages)
    slow_stage(program, stage, variability.stragglers.factor);
  if (!variability.perturbation) return;
  const Perturbation& slower = *variability.perturbation;
  if (slower.stage) slow_stage(program, *slower.stage, slower.factor);
  if (slower.kind) slow_kind(program, *slower.kind, slower.factor);
}

bool slow_stragglers(const VariabilitySettings& variability, const Cluster& cluster,
                     const Placement& placement, Program* program) {
  if (!variability.stragglers.any()) return false;
  return slow_ranks(program,
                    rank_factors(variability.stragglers, variability.seed, cluster, placement));
}

}  // namespace tandem
