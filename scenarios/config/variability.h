// Variability: what makes one run of a scenario differ from the next, as values and seeded draws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/lowering/price.h"
#include "sim/flows.h"
#include "topology/cluster.h"
#include "workload/model/pass.h"

namespace tandem {

// Whose compute takes `factor` times as long.
struct Stragglers {
  double factor = 1;
  std::vector<int> ranks, nodes, stages;
  double node_share = 0;  // each other node is one with this probability

  bool any() const { return some_ranks() || !stages.empty(); }
  bool some_ranks() const { return !ranks.empty() || !nodes.empty() || node_share > 0; }
  Stragglers stages_alone() const { return {factor, {}, {}, stages, 0}; }
};

// How many times as long each rank's compute takes; a draw depends on (seed, node) alone. Stages
// are left to slow_stage().
std::vector<double> rank_factors(const Stragglers& stragglers, std::uint64_t seed,
                                 const Cluster& cluster, const Placement& placement);

// Links that have a share of their bandwidth for a while.
struct SlowLink {
  std::string
      name;  // of a link ("n0.nic0.up"), or of what its links' names begin with; empty: none
  double rate = 1;
  double from_s = 0;
  std::optional<double> to_s;  // nothing: to the end

  // Then routes go round it; what fails for a while lets wait what is on its way.
  bool fails_for_good() const { return !name.empty() && rate == 0 && !to_s; }
};

// An Error where the cluster has no such link.
Result<std::vector<LinkId>> links_of(const SlowLink& slow, const Cluster& cluster);

// In order of time. An Error where the cluster has no such link.
Result<std::vector<LinkChange>> link_changes(const SlowLink& slow, const Cluster& cluster);

// One part that is slower than it is, to see what hangs on it.
struct Perturbation {
  std::optional<int> stage;
  std::optional<GroupKind> kind;
  double factor = 1;
};

// By nearest rank: the least value that so many percent of all do not exceed.
struct Spread {
  double p5 = 0, p50 = 0, p95 = 0;
};
// REQUIRES: some values.
Spread spread_of(std::vector<double> values);

// The place of the median; of an even number, of the lesser in the middle. REQUIRES: some values.
std::size_t median_of(const std::vector<double>& values);

}  // namespace tandem
