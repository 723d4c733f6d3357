// Builds the cluster's graph (Boost.Graph) from its numbers or its list of cables. Links, routes
// and latencies are read from it.
#include "topology/cluster.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "topology/listed_sites.h"
#include "topology/routes.h"
#include "topology/site_graph.h"

namespace tandem {
namespace {

constexpr int kMaxGpus = 1'000'000;  // more is probably a typing error

// Returns an Error about a wrong value. `key`: the key in a scenario's [cluster], where its name
// differs from `what`.
Error wrong_value(std::string_view what, double value, std::string_view expected,
                  std::string_view key = {}) {
  return Error::of({fmt::format("cluster.{}", key.empty() ? what : key)},
                   fmt::format("found {} = {}, expected {}", what, value, expected));
}

Status check_fabric(const Fabric& fabric) {
  if (fabric.kind == Fabric::Star) return Done{};
  if (fabric.nodes_per_leaf < 1)
    return wrong_value("nodes_per_leaf", fabric.nodes_per_leaf, "at least 1");
  if (!std::isfinite(fabric.oversubscription) || fabric.oversubscription < 1)
    return wrong_value("oversubscription", fabric.oversubscription, "at least 1");
  return Done{};
}

Status check_listed(const ClusterSpec& spec, int gpus, const ListedSites& listed) {
  if (gpus < 1 || gpus > listed.gpus)
    return wrong_value("gpus", gpus, fmt::format("1 to {}, as the cables join", listed.gpus));
  if (!spec.nvlinks.empty() && static_cast<int>(spec.nvlinks.size()) != listed.gpus_per_node)
    return Error::of({"cluster.nvlinks"},
                     fmt::format("found nvlinks of {} GPUs, expected {}, as a node has",
                                 spec.nvlinks.size(), listed.gpus_per_node));
  if (spec.gpus_per_node == listed.gpus_per_node) return Done{};
  return wrong_value("gpus_per_node", spec.gpus_per_node,
                     fmt::format("{}, as the cables join", listed.gpus_per_node));
}

Status check_spec(const ClusterSpec& spec, int gpus) {
  using Named = std::pair<std::string_view, double>;
  using InUnit = std::tuple<std::string_view, double, std::string_view>;  // name, value, key
  for (auto [name, value] : {Named{"gpus", gpus}, Named{"gpus_per_node", spec.gpus_per_node},
                             Named{"nics_per_node", spec.nics_per_node}}) {
    if (value < 1 || value > kMaxGpus)
      return wrong_value(name, value, fmt::format("1 to {}", kMaxGpus));
  }
  for (auto [name, value, key] : {InUnit{"intra bytes/s", spec.intra_bytes_per_s, "intra_GBps"},
                                  InUnit{"NIC bytes/s", spec.nic_bytes_per_s, "nic_Gbitps"}}) {
    if (!std::isfinite(value) || value < 1) return wrong_value(name, value, "at least 1", key);
  }
  if (const double rate = spec.communicator_bytes_per_s;
      rate != 0 && !(std::isfinite(rate) && rate >= 1))
    return wrong_value("communicator bytes/s", rate, "at least 1, or 0 for no limit",
                       "communicator_GBps");
  for (auto [name, value] : {Named{"intra_efficiency", spec.intra_efficiency},
                             Named{"inter_efficiency", spec.inter_efficiency},
                             Named{"ring_efficiency", spec.ring_efficiency},
                             Named{"nvls_efficiency", spec.nvls_efficiency},
                             Named{"gather_efficiency", spec.gather_efficiency},
                             Named{"alltoall_efficiency", spec.alltoall_efficiency},
                             Named{"pair_efficiency", spec.pair_efficiency},
                             Named{"intra_ll_latency", spec.intra_low_latency.latency},
                             Named{"intra_ll_rate", spec.intra_low_latency.rate},
                             Named{"inter_ll_latency", spec.inter_low_latency.latency},
                             Named{"inter_ll_rate", spec.inter_low_latency.rate}}) {
    if (!(value > 0 && value <= 1)) return wrong_value(name, value, "above 0 and at most 1");
  }
  for (auto [name, value, key] :
       {InUnit{"intra latency in s", spec.intra_latency_s, "intra_latency_us"},
        InUnit{"inter latency in s", spec.inter_latency_s, "inter_latency_us"},
        InUnit{"intra base in s", spec.intra_base_s, "intra_base_us"},
        InUnit{"inter base in s", spec.inter_base_s, "inter_base_us"},
        InUnit{"ring_fill_steps", spec.ring_fill_steps, "ring_fill_steps"}}) {
    if (!(value >= 0 && value < 1000))
      return wrong_value(name, value, "at least 0 and below 1000", key);
  }
  if (!spec.nvlinks.empty() && static_cast<int>(spec.nvlinks.size()) != spec.gpus_per_node)
    return wrong_value("gpus_per_node", spec.gpus_per_node,
                       fmt::format("{}, as nvlinks has", spec.nvlinks.size()));
  if (spec.gpus_per_nic == 0 && spec.gpus_per_node % spec.nics_per_node != 0)
    return wrong_value("gpus_per_node", spec.gpus_per_node,
                       fmt::format("a multiple of nics_per_node = {}", spec.nics_per_node));
  if (gpus > spec.gpus_per_node && gpus % spec.gpus_per_node != 0)
    return wrong_value("gpus", gpus,
                       fmt::format("a multiple of gpus_per_node = {}", spec.gpus_per_node));
  return check_fabric(spec.fabric);
}

// REQUIRES: a spec that check_spec() passes.
int gpus_per_nic(const ClusterSpec& spec) {
  return spec.gpus_per_nic > 0 ? spec.gpus_per_nic : spec.gpus_per_node / spec.nics_per_node;
}

}  // namespace

ClusterSpec with_part_of_node(ClusterSpec spec, int gpus) {
  const bool is_even = spec.nics_per_node > 0 && spec.gpus_per_node % spec.nics_per_node == 0;
  if (spec.gpus_per_nic == 0 && !is_even) return spec;
  spec.gpus_per_nic = gpus_per_nic(spec);
  spec.gpus_per_node = gpus;
  spec.nics_per_node = (gpus + spec.gpus_per_nic - 1) / spec.gpus_per_nic;
  return spec;
}

// Vertices are numbered in this order: core, leaves, GPUs, NICs, node switches. Links come in
// pairs, up (away from the GPU) and down: first those of GPUs, then NICs, then leaves.
struct Cluster::Graph {
  ClusterSpec spec;
  int gpus = 0;
  int nodes = 0;
  int nics = 0;
  int leaves = 0;
  Nanoseconds intra_latency_ns = 0;
  Nanoseconds inter_latency_ns = 0;
  std::vector<int> node_of;  // by GPU
  std::vector<int> nic_of;   // by GPU
  std::vector<Link> links;
  bool nodes_alike = true;
  std::vector<std::string> node_names;  // with listed cables only
  SiteGraph wiring;
  std::unique_ptr<Routes> routes;

  Graph(const ClusterSpec& of, int count);
  Graph(const ClusterSpec& of, const ListedSites& listed);

  void find_routes(std::vector<bool> failed);

  // Returns whether the link joins a GPU and the switch of its node. REQUIRES: no listed cables.
  bool is_inside(LinkId link) const { return index(link) < 2 * gpus; }

  std::string gpu_name(int gpu) const { return wiring[gpu_vertex(gpu)].name; }

  // Returns the latency of a message over these links.
  Nanoseconds latency_ns(std::span<const LinkId> route) const;

  // REQUIRES: the fabric has leaves.
  int leaf_of(int nic) const {
    const int pod = nic / spec.nics_per_node / spec.fabric.nodes_per_leaf;
    if (spec.fabric.kind == Fabric::FatTree) return pod;
    return pod * spec.nics_per_node + nic % spec.nics_per_node;
  }

 private:
  SiteId leaf_vertex(int leaf) const { return 1 + leaf; }
  SiteId gpu_vertex(int gpu) const { return spec.cables ? gpu : 1 + leaves + gpu; }
  SiteId nic_vertex(int nic) const { return 1 + leaves + gpus + nic; }
  SiteId switch_vertex(int node) const { return 1 + leaves + gpus + nics + node; }

  void add_vertices();
  void add_all_links();
  void add_wires();
  void link_pair(const std::string& name, SiteId lower, SiteId upper, double bytes_per_s,
                 Nanoseconds latency_ns);
  void wire(SiteId a, SiteId b);
};

Cluster::Graph::Graph(const ClusterSpec& of, int count)
    : spec(of),
      gpus(count),
      nodes((count + of.gpus_per_node - 1) / of.gpus_per_node),
      nics(nodes * of.nics_per_node),
      intra_latency_ns(to_ns(of.intra_latency_s)),
      inter_latency_ns(to_ns(of.inter_latency_s)) {
  if (spec.fabric.kind != Fabric::Star) leaves = leaf_of(nics - 1) + 1;
  for (int i = 0; i < gpus; ++i) {
    const int node = i / spec.gpus_per_node;
    node_of.push_back(node);
    nic_of.push_back(node * spec.nics_per_node + i % spec.gpus_per_node / gpus_per_nic(spec));
  }
  add_vertices();
  add_all_links();
  add_wires();
  find_routes(std::vector<bool>(links.size()));
}

// Vertices are the sites in their order. Each cable makes two links, there and back.
Cluster::Graph::Graph(const ClusterSpec& of, const ListedSites& listed)
    : spec(of),
      gpus(listed.gpus),
      nodes(listed.gpus / listed.gpus_per_node),
      nodes_alike(false),
      node_names(listed.nodes) {
  for (const Vertex& site : listed.sites) wiring[boost::add_vertex(wiring)] = site;
  for (int i = 0; i < gpus; ++i) node_of.push_back(listed.sites[i].node);
  for (std::size_t i = 0; i < listed.cables.size(); ++i) {
    const ListedCable& cable = (*spec.cables)[i];
    const auto [from, to] = listed.cables[i];
    const bool inside = wiring[from].node >= 0 && wiring[to].node >= 0;
    const double usual = inside ? spec.intra_efficiency : spec.inter_efficiency;
    const double rate = cable.bytes_per_s * (cable.efficiency > 0 ? cable.efficiency : usual);
    link_pair(cable.from + '.' + cable.to, from, to, rate, to_ns(cable.latency_s));
  }
  find_routes(std::vector<bool>(links.size()));
}

void Cluster::Graph::find_routes(std::vector<bool> failed) {
  std::vector<SiteId> gpu_sites;
  for (int i = 0; i < gpus; ++i) gpu_sites.push_back(gpu_vertex(i));
  routes = std::make_unique<Routes>(wiring, std::move(gpu_sites), std::move(failed));
}

Nanoseconds Cluster::Graph::latency_ns(std::span<const LinkId> route) const {
  if (spec.cables) {
    Nanoseconds listed_ns = 0;
    for (const LinkId link : route) listed_ns += links[index(link)].latency_ns;
    return listed_ns;
  }
  Nanoseconds inside_ns = 0;
  bool crosses = false;
  for (const LinkId link : route) {
    // A message pays the latency inside a node once for each GPU's up-link on its way.
    if (is_inside(link) && index(link) % 2 == 0) inside_ns += intra_latency_ns;
    crosses |= !is_inside(link);
  }
  if (!crosses) return inside_ns;
  // Between nodes, the way through a GPU's switch adds latency unless the NICs hang on that switch.
  return inter_latency_ns + (spec.nics_on_switch ? 0 : inside_ns);
}

void Cluster::Graph::add_vertices() {
  const auto add = [this](std::string name, int node, Vertex::Kind kind = Vertex::Switch) {
    wiring[boost::add_vertex(wiring)] = Vertex{std::move(name), node, kind};
  };
  add(leaves == 0 ? "core" : "spine", -1);
  for (int i = 0; i < leaves; ++i) add(fmt::format("leaf{}", i), -1);
  for (int i = 0; i < gpus; ++i) {
    add(fmt::format("n{}.gpu{}", node_of[i], i % spec.gpus_per_node), node_of[i], Vertex::Gpu);
  }
  for (int i = 0; i < nics; ++i) {
    const int node = i / spec.nics_per_node;
    add(fmt::format("n{}.nic{}", node, i % spec.nics_per_node), node, Vertex::Nic);
  }
  for (int i = 0; i < nodes; ++i) add(fmt::format("n{}", i), i);
}

void Cluster::Graph::add_all_links() {
  // Each link gets half of a message's latency, since a message crosses two links of its kind.
  const double gpu_rate = spec.intra_bytes_per_s * spec.intra_efficiency;
  for (int i = 0; i < gpus; ++i)
    link_pair(wiring[gpu_vertex(i)].name, gpu_vertex(i), switch_vertex(node_of[i]), gpu_rate,
              intra_latency_ns / 2);
  const double nic_rate = spec.nic_bytes_per_s * spec.inter_efficiency;
  for (int i = 0; i < nics; ++i) {
    const SiteId upper = leaves == 0 ? 0 : leaf_vertex(leaf_of(i));
    link_pair(wiring[nic_vertex(i)].name, nic_vertex(i), upper, nic_rate, inter_latency_ns / 2);
  }
  // A leaf's uplinks are sized by all of its ports, even those of the last leaf, which may have
  // fewer nodes.
  double nics_per_leaf = spec.fabric.nodes_per_leaf;
  if (spec.fabric.kind == Fabric::FatTree) nics_per_leaf *= spec.nics_per_node;
  for (int i = 0; i < leaves; ++i)
    link_pair(wiring[leaf_vertex(i)].name, leaf_vertex(i), 0,
              nics_per_leaf * nic_rate / spec.fabric.oversubscription, 0);
}

void Cluster::Graph::add_wires() {
  if (spec.nics_on_switch) {
    for (int i = 0; i < nics; ++i) wire(nic_vertex(i), switch_vertex(i / spec.nics_per_node));
    return;
  }
  // A wire, not a link, joins a GPU and its NIC: PCIe is wider than the NIC in every preset.
  for (int i = 0; i < gpus; ++i) wire(gpu_vertex(i), nic_vertex(nic_of[i]));
}

void Cluster::Graph::link_pair(const std::string& name, SiteId lower, SiteId upper,
                               double bytes_per_s, Nanoseconds latency_ns) {
  const int up = static_cast<int>(links.size());
  links.push_back({name + ".up", bytes_per_s, latency_ns});
  links.push_back({name + ".down", bytes_per_s, latency_ns});
  boost::add_edge(lower, upper, SiteEdge{up}, wiring);
  boost::add_edge(upper, lower, SiteEdge{up + 1}, wiring);
}

void Cluster::Graph::wire(SiteId a, SiteId b) {
  boost::add_edge(a, b, SiteEdge{}, wiring);
  boost::add_edge(b, a, SiteEdge{}, wiring);
}

Cluster::Cluster(std::unique_ptr<Graph> graph) : graph_(std::move(graph)) {}
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;
Cluster::~Cluster() = default;

Result<Cluster> Cluster::build(const ClusterSpec& spec, int gpus) {
  if (spec.cables) {
    ASSIGN_OR_RETURN(const ListedSites listed, sites_of(*spec.cables));
    if (!spec.has_hosts) RETURN_IF_ERROR(check_numbers(listed));
    RETURN_IF_ERROR(check_listed(spec, gpus, listed));
    Cluster cluster(std::make_unique<Graph>(spec, listed));
    const auto pair = cluster.graph_->routes->unreachable_pair();
    if (!pair) return cluster;
    return Error{fmt::format("found no way from {} to {}, expected cables that join all GPUs",
                             cluster.graph_->gpu_name(pair->first),
                             cluster.graph_->gpu_name(pair->second))};
  }
  RETURN_IF_ERROR(check_spec(spec, gpus));
  return Cluster(std::make_unique<Graph>(spec, gpus));
}

const ClusterSpec& Cluster::spec() const { return graph_->spec; }
int Cluster::gpus() const { return graph_->gpus; }
int Cluster::nodes() const { return graph_->nodes; }
int Cluster::links() const { return static_cast<int>(graph_->links.size()); }

NodeId Cluster::node_of(DeviceId device) const {
  CHECK(index(device) >= 0 && index(device) < graph_->gpus);
  return NodeId{graph_->node_of[index(device)]};
}

const Link& Cluster::link(LinkId link) const {
  CHECK(index(link) >= 0 && index(link) < links());
  return graph_->links[index(link)];
}

Status Cluster::fail_links(std::span<const LinkId> failed) {
  std::vector<bool> all(links());
  for (const LinkId link : failed) all[index(link)] = true;
  std::unique_ptr<Routes> before = std::move(graph_->routes);
  graph_->find_routes(std::move(all));
  if (const auto pair = graph_->routes->unreachable_pair()) {
    graph_->routes = std::move(before);
    return Error{fmt::format("there is no other way from {} to {}", graph_->gpu_name(pair->first),
                             graph_->gpu_name(pair->second))};
  }
  graph_->nodes_alike = false;
  return Done{};
}

bool Cluster::has_failed(LinkId link) const { return graph_->routes->has_failed(link); }

bool Cluster::nodes_alike() const { return graph_->nodes_alike; }

std::vector<LinkId> Cluster::route(DeviceId from, DeviceId to) const {
  std::vector<LinkId> links;
  route(from, to, &links);
  return links;
}

void Cluster::route(DeviceId from, DeviceId to, std::vector<LinkId>* links) const {
  CHECK(index(from) >= 0 && index(from) < gpus() && index(to) >= 0 && index(to) < gpus());
  CHECK(graph_->routes->find(index(from), index(to), links));
}

DeviceId Cluster::sender(DeviceId from, DeviceId to) const {
  const ClusterSpec& spec = graph_->spec;
  const bool may_have_rails = spec.cables != nullptr || spec.fabric.kind == Fabric::RailOptimised;
  if (!may_have_rails) return from;
  const DeviceId by{graph_->routes->sender(index(from), index(to))};
  const auto place = [&](DeviceId gpu) { return index(gpu) % spec.gpus_per_node; };
  const bool is_joined = spec.nvlinks.empty() || spec.nvlinks[place(from)][place(by)] > 0;
  return is_joined ? by : from;
}

Nanoseconds Cluster::latency_ns(DeviceId from, DeviceId to) const {
  if (from == to) return 0;
  const Graph& graph = *graph_;
  if (!graph.nodes_alike) return graph.latency_ns(route(from, to));
  return node_of(from) == node_of(to) ? graph.intra_latency_ns : graph.inter_latency_ns;
}

ClusterGraph Cluster::graph() const {
  const SiteGraph& wiring = graph_->wiring;
  ClusterGraph graph;
  graph.nodes = graph_->node_names;
  for (int node = 0; node < graph_->nodes && graph_->node_names.empty(); ++node)
    graph.nodes.push_back(fmt::format("node {}", node));
  for (auto [vertex, end] = boost::vertices(wiring); vertex != end; ++vertex) {
    const Vertex& site = wiring[*vertex];
    graph.points.push_back({site.name, site.node, static_cast<ClusterGraph::Kind>(site.kind)});
  }
  // Both directions are equal, so one line stands for the pair.
  for (auto [edge, end] = boost::edges(wiring); edge != end; ++edge) {
    const SiteId from = boost::source(*edge, wiring);
    const SiteId to = boost::target(*edge, wiring);
    const int link = wiring[*edge].link;
    const bool is_back = link >= 0 ? link % 2 != 0 : from > to;
    if (is_back) continue;
    graph.lines.push_back({static_cast<int>(from), static_cast<int>(to),
                           link >= 0 ? graph_->links[link].bytes_per_s : 0});
  }
  return graph;
}

}  // namespace tandem
