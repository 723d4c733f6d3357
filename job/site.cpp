#include "job/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job/failed_links.h"
#include "scenarios/hostfile.h"
#include "topology/fabric_shape.h"

namespace tandem {
namespace {

// Returns a cluster for uniform costs: every transfer takes p2p_s, whatever its size.
ClusterSpec uniform_cluster(double p2p_s) {
  ClusterSpec spec;
  spec.name = "uniform";
  spec.gpus_per_node = 1;
  spec.nics_per_node = 1;
  spec.intra_bytes_per_s = spec.nic_bytes_per_s = 1e15;
  spec.inter_latency_s = p2p_s;
  return spec;
}

Result<Cluster> build_cluster(const ClusterSettings& settings, const CostSettings& costs,
                              const VariabilitySettings& variability) {
  ClusterSpec spec = costs.need_cluster()
                         ? settings.spec
                         : uniform_cluster(costs.p2p_s * costs.profile.pipeline_stretch);
  // Background traffic takes a part of the bandwidth between nodes: of the cables if the scenario
  // states them, else of the NICs.
  (spec.cables ? spec.inter_efficiency : spec.nic_bytes_per_s) *= 1 - variability.background;
  const int nodes = (settings.gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
  auto cluster = Cluster::build(spec, nodes > 1 ? nodes * spec.gpus_per_node : settings.gpus);
  if (!cluster.ok())
    return cluster.error().or_of({"cluster.nics_per_node", "cluster.fabric", "cluster.links_file",
                                  "cluster.gpus", "cluster.preset", "parallel.pp"});
  if (!variability.slow_link.fails_for_good()) return cluster;
  const Status status = remove_failed_links(variability.slow_link, &*cluster);
  if (!status.ok()) return status.error().or_of({"variability.slow_link_rate"});
  return cluster;
}

}  // namespace

Result<Site> build_site(const Scenario& scenario) {
  ASSIGN_OR_RETURN(Cluster cluster,
                   build_cluster(scenario.cluster, scenario.costs, scenario.variability));
  Placement placement = place_ranks(scenario.cluster, cluster);
  return Site{std::move(cluster), std::move(placement)};
}

Result<Site> make_site(const Scenario& scenario) {
  auto site = build_site(scenario);
  if (!site.ok()) return scenario.placed(site.error());
  return site;
}

Result<Site> make_changed_site(Scenario scenario) {
  const Status placed = place_by_hostfile(&scenario.cluster);
  if (!placed.ok()) return scenario.placed(placed.error());
  const ClusterSettings& cluster = scenario.cluster;
  const int node = cluster.spec.gpus_per_node;
  if (cluster.cyclic && cluster.gpu_of_rank.empty() && cluster.gpus % node != 0)
    return Error{
        fmt::format("found {} GPUs with cyclic placement, expected whole nodes: a multiple of {}",
                    cluster.gpus, node)};
  return make_site(scenario);
}

Result<Cluster> make_cluster(const Scenario& scenario) {
  ASSIGN_OR_RETURN(Site site, make_site(scenario));
  return std::move(site.cluster);
}

std::string idle_nics(const Site& site) {
  const NodeId first = site.cluster.node_of(site.placement.front());
  const bool is_on_one = std::ranges::all_of(
      site.placement, [&](DeviceId gpu) { return site.cluster.node_of(gpu) == first; });
  return is_on_one ? "" : idle_nics(site.cluster);
}

Placement place_ranks(const ClusterSettings& settings, const Cluster& cluster) {
  if (!settings.gpu_of_rank.empty()) {
    Placement placement;
    for (const int gpu : settings.gpu_of_rank) placement.push_back(DeviceId{gpu});
    return placement;
  }
  return settings.cyclic ? round_robin(settings.gpus, cluster.spec().gpus_per_node)
                         : in_order(settings.gpus);
}

}  // namespace tandem
