// Puts a route together from shortest paths inside the two nodes and through the fabric (the
// switches between nodes). A port is a NIC, or a node's other site that is joined to the fabric:
//   GPU -> port (node's paths) -> switches (fabric's paths) -> port -> GPU (other node's paths)
#include "topology/routes.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// Returns the sites of each node, GPUs first.
std::vector<std::vector<SiteId>> sites_by_node(const SiteGraph& graph,
                                               const std::vector<SiteId>& gpus) {
  std::vector<std::vector<SiteId>> sites;
  for (const SiteId gpu : gpus) {
    sites.resize(std::max<std::size_t>(sites.size(), graph[gpu].node + 1));
    sites[graph[gpu].node].push_back(gpu);
  }
  for (SiteId site = 0; site < boost::num_vertices(graph); ++site) {
    if (graph[site].node >= 0 && graph[site].kind != Vertex::Gpu)
      sites[graph[site].node].push_back(site);
  }
  return sites;
}

}  // namespace

Routes::Routes(const SiteGraph& graph, std::vector<SiteId> gpus, std::vector<bool> failed)
    : graph_(graph),
      gpus_(std::move(gpus)),
      failed_(std::move(failed)),
      sites_(sites_by_node(graph_, gpus_)),
      place_(boost::num_vertices(graph_)),
      fabric_(graph_, failed_, sites_),
      nodes_(sites_.size()) {
  for (const std::vector<SiteId>& sites : sites_) {
    for (std::size_t i = 0; i < sites.size(); ++i) place_[sites[i]] = static_cast<int>(i);
  }
}

const Routes::Node& Routes::node(int number) const {
  Node& node = nodes_[number];
  if (node.paths != nullptr) return node;
  const std::vector<SiteId>& sites = sites_[number];
  NodeWiring wiring;
  const bool has_nics =
      std::ranges::any_of(sites, [&](SiteId site) { return graph_[site].kind == Vertex::Nic; });
  for (const SiteId site : sites) {
    wiring.sites.push_back(graph_[site].kind);
    // A failed NIC still counts as a port, so that the other GPUs keep their NICs.
    const bool joins_fabric = !fabric_.links_up(site).empty() || !fabric_.links_down(site).empty();
    const bool is_port = has_nics ? graph_[site].kind == Vertex::Nic : joins_fabric;
    if (is_port) wiring.ports.push_back(place_[site]);
    for (auto [edge, end] = boost::out_edges(site, graph_); edge != end; ++edge) {
      const SiteId to = boost::target(*edge, graph_);
      const int link = graph_[*edge].link;
      if (graph_[to].node < 0 || (link >= 0 && failed_[link])) continue;
      wiring.edges.emplace_back(place_[site], place_[to]);
      node.links.push_back(link);
    }
  }
  const auto [known, is_new] = node_paths_.try_emplace(std::move(wiring));
  if (is_new) known->second = paths_inside(known->first);
  node.paths = &known->second;
  return node;
}

// Returns the ports of two GPUs' nodes with the fewest hops inside the nodes, among those that the
// fabric joins. If only one of the GPUs can use its own port, it is the destination; the source
// then sends by another GPU's port, as NCCL does with PXN.
Routes::PortPair Routes::nearest_ports(int from, int to) const {
  const std::vector<PortPath>& outs = node(node_of(from)).paths->to_ports[place_of(from)];
  PortPair best;
  int best_hops = std::numeric_limits<int>::max();
  for (const PortPath& in : node(node_of(to)).paths->from_ports[place_of(to)]) {
    if (outs.empty() || in.hops() + outs.front().hops() >= best_hops) break;
    for (const PortPath& out : outs) {
      if (in.hops() + out.hops() >= best_hops) break;
      const int fabric_hops = fabric_.hops(port_of(from, out), port_of(to, in));
      if (fabric_hops < 0) continue;
      best_hops = in.hops() + out.hops();
      best = {&out, &in, fabric_hops};
    }
  }
  return best;
}

bool Routes::find(int from, int to, std::vector<LinkId>* links) const {
  links->clear();
  if (from == to) return true;
  const auto add_inside = [&](int gpu, const std::vector<int>& edges) {
    const Node& own = node(node_of(gpu));
    for (const int edge : edges) {
      if (own.links[edge] >= 0) links->push_back(LinkId{own.links[edge]});
    }
  };
  if (node_of(from) == node_of(to)) {
    const auto& inside = node(node_of(from)).paths->gpu_to_gpu[place_of(from)][place_of(to)];
    if (inside) add_inside(from, *inside);
    if (inside) return true;
  }
  const PortPair ports = nearest_ports(from, to);
  if (ports.out == nullptr) return false;
  add_inside(from, ports.out->edges);
  fabric_.add_links(port_of(from, *ports.out), port_of(to, *ports.in), links);
  add_inside(to, ports.in->edges);
  return true;
}

int Routes::sender(int from, int to) const {
  const int relay = from - place_of(from) + place_of(to);
  if (relay == from || relay == to) return from;
  const PortPair own = nearest_ports(from, to);
  if (own.fabric_hops == 0) return from;
  const PortPair other = nearest_ports(relay, to);
  if (other.out == nullptr || other.fabric_hops > own.fabric_hops) return from;
  if (fabric_.hops(port_of(from, *own.out), port_of(relay, *other.out)) <= 0) return from;
  const auto& inside = node(node_of(from)).paths->gpu_to_gpu[place_of(from)][place_of(relay)];
  const std::vector<int>& to_nic = own.out->edges;
  return inside && (to_nic.empty() || inside->front() != to_nic.front()) ? relay : from;
}

// Returns the strongly connected components of the fabric that a GPU sends into, and those that it
// receives from. GPUs with equal results reach the same GPUs of other nodes.
Routes::FabricReach Routes::fabric_reach(int gpu, const std::vector<int>& component) const {
  const NodePaths& paths = *node(node_of(gpu)).paths;
  FabricReach reach;
  for (const PortPath& path : paths.to_ports[place_of(gpu)]) {
    for (const FabricPaths::Hop& hop : fabric_.links_up(port_of(gpu, path)))
      reach.first.insert(component[hop.far_switch]);
  }
  for (const PortPath& path : paths.from_ports[place_of(gpu)]) {
    for (const FabricPaths::Hop& hop : fabric_.links_down(port_of(gpu, path)))
      reach.second.insert(component[hop.far_switch]);
  }
  return reach;
}

std::optional<std::pair<int, int>> Routes::unreachable_pair() const {
  const std::vector<int> component = fabric_.components();
  std::vector<LinkId> links;
  // GPUs of equal reach need only one representative, and a second one on another node, so that
  // there are pairs between nodes.
  std::map<FabricReach, std::vector<int>> gpus_by_reach;
  for (int gpu = 0; gpu < static_cast<int>(gpus_.size()); ++gpu) {
    const auto& inside = node(node_of(gpu)).paths->gpu_to_gpu[place_of(gpu)];
    for (int place = 0; place < static_cast<int>(inside.size()); ++place) {
      const int other = gpu - place_of(gpu) + place;
      if (!inside[place] && !find(gpu, other, &links)) return std::pair(gpu, other);
    }
    std::vector<int>& alike = gpus_by_reach[fabric_reach(gpu, component)];
    if (alike.empty() || (alike.size() == 1 && node_of(alike[0]) != node_of(gpu)))
      alike.push_back(gpu);
  }
  for (const auto& [from_reach, from_gpus] : gpus_by_reach)
    for (const auto& [to_reach, to_gpus] : gpus_by_reach)
      for (const int from : from_gpus)
        for (const int to : to_gpus)
          if (node_of(from) != node_of(to) && !find(from, to, &links)) return std::pair(from, to);
  return std::nullopt;
}

}  // namespace tandem
