// Describes a fabric from its cables: counts the links of each switch and, by breadth-first search,
// the switches on the shortest way between each two nodes.
#include "topology/fabric_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <iterator>
#include <set>

#include "base/hostlist.h"
#include "topology/listed_sites.h"

namespace tandem {
namespace {

using Switches = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;

// The switches between nodes as a graph of their own, and which of them each node hangs on.
struct SwitchNetwork {
  Switches graph;
  std::vector<int> place;              // by site: its vertex, or -1
  std::vector<std::set<int>> of_node;  // by node: the vertices of its switches
};

SwitchNetwork network_of(const ListedSites& listed) {
  SwitchNetwork network;
  network.of_node.resize(listed.nodes.size());
  for (const Vertex& site : listed.sites)
    network.place.push_back(site.node < 0 ? static_cast<int>(boost::add_vertex(network.graph))
                                          : -1);
  for (const auto& [from, to] : listed.cables) {
    const int a = network.place[from], b = network.place[to];
    if (a >= 0 && b >= 0) boost::add_edge(a, b, network.graph);
    if (a >= 0 && b < 0) network.of_node[listed.sites[to].node].insert(a);
    if (a < 0 && b >= 0) network.of_node[listed.sites[from].node].insert(b);
  }
  return network;
}

// Returns the hops from the nearest of these switches to each switch, by breadth-first search. -1:
// there is no way.
std::vector<int> hops_from(const Switches& graph, const std::set<int>& begin) {
  std::vector<int> hops(boost::num_vertices(graph), -1);
  for (const int at : begin) hops[at] = 0;
  boost::queue<Switches::vertex_descriptor> queue;
  std::vector<boost::default_color_type> colors(boost::num_vertices(graph));
  boost::breadth_first_search(
      graph, begin.begin(), begin.end(), queue,
      boost::make_bfs_visitor(boost::record_distances(hops.data(), boost::on_tree_edge())),
      colors.data());
  return hops;
}

// Counts pairs of nodes by the switches on their way. Nodes on the same switches are counted
// together.
std::map<int, std::int64_t> pairs_of(const SwitchNetwork& network) {
  std::map<std::set<int>, std::int64_t> nodes_by_switches;
  for (const std::set<int>& switches : network.of_node) {
    if (!switches.empty()) ++nodes_by_switches[switches];
  }
  std::map<int, std::int64_t> pairs;
  for (auto kind = nodes_by_switches.begin(); kind != nodes_by_switches.end(); ++kind) {
    const std::vector<int> hops = hops_from(network.graph, kind->first);
    if (kind->second > 1) pairs[1] += kind->second * (kind->second - 1) / 2;
    for (auto other = std::next(kind); other != nodes_by_switches.end(); ++other) {
      int fewest = -1;
      for (const int at : other->first) {
        if (hops[at] >= 0 && (fewest < 0 || hops[at] < fewest)) fewest = hops[at];
      }
      if (fewest >= 0) pairs[fewest + 1] += kind->second * other->second;
    }
  }
  return pairs;
}

constexpr int kMostNodes = 64;  // to which the first node's routes are looked at

// Marks the links of all routes between the first node's GPUs and the other's.
void mark_routes(const Cluster& cluster, int other, std::vector<bool>* is_used) {
  const int node = cluster.spec().gpus_per_node;
  std::vector<LinkId> links;
  for (int gpu = 0; gpu < node * node; ++gpu) {
    const DeviceId here{gpu / node}, there{other * node + gpu % node};
    for (const auto& [from, to] : {std::pair(here, there), std::pair(there, here)}) {
      cluster.route(from, to, &links);
      for (const LinkId link : links) (*is_used)[index(link)] = true;
    }
  }
}

}  // namespace

Result<FabricShape> fabric_shape(const std::vector<ListedCable>& cables) {
  ASSIGN_OR_RETURN(const ListedSites listed, sites_of(cables));
  const SwitchNetwork network = network_of(listed);
  FabricShape shape;
  shape.switches = static_cast<int>(boost::num_vertices(network.graph));
  shape.pairs = pairs_of(network);
  std::vector<LeafShape> all(shape.switches);
  for (std::size_t i = 0; i < cables.size(); ++i) {
    const auto [from, to] = listed.cables[i];
    const auto count = [&](SiteId at, SiteId other) {
      if (network.place[at] < 0) return;
      LeafShape& leaf = all[network.place[at]];
      const bool is_up = network.place[other] >= 0;
      (is_up ? leaf.up_links : leaf.down_links) += 1;
      (is_up ? leaf.up_bytes_per_s : leaf.down_bytes_per_s) += cables[i].bytes_per_s;
    };
    count(from, to);
    count(to, from);
  }
  for (SiteId site = 0; site < listed.sites.size(); ++site) {
    if (network.place[site] >= 0) all[network.place[site]].name = listed.sites[site].name;
  }
  for (LeafShape& leaf : all) {
    if (leaf.down_links > 0) shape.leaves.push_back(std::move(leaf));
  }
  return shape;
}

std::string idle_nics(const Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  if (!spec.cables || cluster.nodes() < 2) return "";
  const auto listed = sites_of(*spec.cables);
  if (!listed.ok()) return "";
  std::map<SiteId, std::vector<LinkId>> nics;  // the first node's -> its links to the fabric
  for (std::size_t i = 0; i < listed->cables.size(); ++i) {
    const auto [from, to] = listed->cables[i];
    const LinkId there{static_cast<int>(2 * i)}, back{static_cast<int>(2 * i + 1)};
    if (cluster.has_failed(there) || cluster.has_failed(back)) continue;
    for (const auto& [nic, other] : {std::pair(from, to), std::pair(to, from)}) {
      const Vertex& site = listed->sites[nic];
      if (site.kind != Vertex::Nic || site.node != 0 || listed->sites[other].node >= 0) continue;
      nics[nic].insert(nics[nic].end(), {there, back});
    }
  }
  std::vector<bool> is_used(cluster.links());
  const auto count_used = [&] {
    return std::ranges::count_if(nics, [&](const auto& nic) {
      return std::ranges::any_of(nic.second, [&](LinkId link) { return is_used[index(link)]; });
    });
  };
  std::ptrdiff_t used = 0;
  const int step = (cluster.nodes() - 1 + kMostNodes - 1) / kMostNodes;
  for (int node = 1; node < cluster.nodes() && used < std::ssize(nics); node += step) {
    mark_routes(cluster, node, &is_used);
    used = count_used();
  }
  if (used == std::ssize(nics)) return "";
  return fmt::format(
      "{} NICs a node, {} carr{} traffic: a GPU keeps to the nearest, and to one of several as "
      "near; "
      "those that NCCL shares are one NIC with their rates together",
      nics.size(), used, used == 1 ? "ies" : "y");
}

}  // namespace tandem
