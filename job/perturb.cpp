#include "job/perturb.h"

#include <set>
#include <vector>

#include "schedule/program/slowdown.h"

namespace tandem {
namespace {

// Returns the numbers of these stages in every chain: stage 1 of 4 is 1 and 5 with DualPipe.
std::vector<int> in_all_chains(const std::vector<int>& stages, const Order& order) {
  std::set<int> all;
  for (int first = 0; first < order.stages; first += order.stages / order.chains) {
    for (const int stage : stages) all.insert(first + stage);
  }
  return {all.begin(), all.end()};
}

}  // namespace

void slow_parts(const VariabilitySettings& variability, const Order& order, Program* program) {
  const Stragglers& slow = variability.stragglers;
  for (const int stage : in_all_chains(slow.stages, order)) slow_stage(program, stage, slow.factor);
  if (!variability.perturbation) return;
  const Perturbation& slower = *variability.perturbation;
  if (slower.stage) {
    for (const int stage : in_all_chains({*slower.stage}, order))
      slow_stage(program, stage, slower.factor);
  }
  if (slower.kind) slow_kind(program, *slower.kind, slower.factor);
}

bool slow_stragglers(const VariabilitySettings& variability, const Order& order, const Site& site,
                     Program* program) {
  const Stragglers& slow = variability.stragglers;
  if (!slow.any()) return false;
  return slow_ranks(program, rank_factors(slow, variability.seed, site.cluster, site.placement),
                    in_all_chains(slow.stages, order));
}

}  // namespace tandem
