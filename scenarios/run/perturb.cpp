#include "scenarios/run/perturb.h"

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

Result<SimOptions> sim_options(const VariabilitySettings& variability, const Cluster& cluster,
                               bool folds, Engine engine) {
  SimOptions options{variability.jitter, variability.seed, folds};
  const SlowLink& slow = variability.slow_link;
  if (slow.name.empty() || slow.fails_for_good()) return options;
  if (engine == Engine::Ideal)
    return Error::of({"variability.slow_link"},
                     "found variability.slow_link with the ideal engine, expected "
                     "simgrid: ideal knows no time on links");
  ASSIGN_OR_RETURN(options.link_changes, link_changes(slow, cluster));
  return options;
}

}  // namespace tandem
