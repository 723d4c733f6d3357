#include "scenarios/variability.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/nearest.h"
#include "base/quantile.h"
#include "base/random.h"

namespace tandem {

std::vector<double> rank_factors(const Stragglers& stragglers, std::uint64_t seed,
                                 const Cluster& cluster, const Placement& placement) {
  // "nodes" in ASCII: makes these draws differ from the jitter's.
  constexpr std::uint64_t kNodes = 0x6e6f646573;
  std::vector<double> node_factors(cluster.nodes(), 1);
  for (std::size_t node = 0; node < node_factors.size(); ++node) {
    if (uniform(scatter(scatter(seed) ^ kNodes) + node) < stragglers.node_share)
      node_factors[node] = stragglers.factor;
  }
  for (const int node : stragglers.nodes) node_factors[node] = stragglers.factor;
  std::vector<double> factors;
  for (const DeviceId device : placement)
    factors.push_back(node_factors[index(cluster.node_of(device))]);
  for (const int rank : stragglers.ranks) factors[rank] = stragglers.factor;
  return factors;
}

Result<std::vector<LinkId>> links_of(const SlowLink& slow, const Cluster& cluster) {
  std::vector<LinkId> links;
  std::vector<std::string> names;
  for (int i = 0; i < cluster.links(); ++i) {
    names.push_back(cluster.link(LinkId{i}).name);
    // Compares whole words: "n0" stands for n0.nic0.up, and not for n01.nic0.up.
    if ((names.back() + '.').starts_with(slow.name + '.')) links.push_back(LinkId{i});
  }
  if (!links.empty()) return links;
  return Error::of({"variability.slow_link"},
                   fmt::format("found variability.slow_link = {}, expected a link of the cluster; "
                               "the nearest is '{}'",
                               slow.name, nearest(slow.name, names)));
}

Spread spread_of(std::vector<double> values) {
  CHECK(!values.empty());
  std::ranges::sort(values);
  return {nearest_rank(values, 0.05), nearest_rank(values, 0.5), nearest_rank(values, 0.95)};
}

std::size_t median_of(const std::vector<double>& values) {
  CHECK(!values.empty());
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return values[i]; });
  return places[(places.size() - 1) / 2];
}

}  // namespace tandem
