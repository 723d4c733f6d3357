// Variability: differences between runs of a scenario: stragglers, slow links and one part made
// slower, as values and draws from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"
#include "workload/model/pass.h"

namespace tandem {

// Ranks, nodes and stages whose compute takes `factor` times as long.
struct Stragglers {
  double factor = 1;
  std::vector<int> ranks, nodes, stages;
  double node_share = 0;  // probability that any other node is a straggler

  bool any() const { return some_ranks() || !stages.empty(); }
  bool some_ranks() const { return !ranks.empty() || !nodes.empty() || node_share > 0; }
  Stragglers stages_alone() const { return {factor, {}, {}, stages, 0}; }
};

// Returns how many times as long each rank's compute takes. A node's draw depends on (seed, node)
// alone. Straggling stages are left out: slow_stage() slows them.
std::vector<double> rank_factors(const Stragglers& stragglers, std::uint64_t seed,
                                 const Cluster& cluster, const Placement& placement);

// Links that have only a share of their bandwidth, for a while or for good.
struct SlowLink {
  std::string name;  // a link ("n0.nic0.up"), or the beginning of several names ("n0"); empty: none
  double rate = 1;
  double from_s = 0;
  std::optional<double> to_s;  // nothing: to the end

  // Whether routes must avoid the links. Transfers wait for links that fail only for a while.
  bool fails_for_good() const { return !name.empty() && rate == 0 && !to_s; }
};

// Returns the links that the name stands for. Error: the cluster has no such link.
Result<std::vector<LinkId>> links_of(const SlowLink& slow, const Cluster& cluster);

// A part of the run that is made slower, to see how much the iteration depends on it.
struct Perturbation {
  std::optional<int> stage;
  std::optional<GroupKind> kind;
  double factor = 1;
};

// Percentiles by nearest rank: p95 is the smallest value that 95 % of all values do not exceed.
struct Spread {
  double p5 = 0, p50 = 0, p95 = 0;
};
// REQUIRES: at least one value.
Spread spread_of(std::vector<double> values);

// Returns the index of the median; of an even number of values, that of the smaller middle one.
// REQUIRES: at least one value.
std::size_t median_of(const std::vector<double>& values);

}  // namespace tandem
