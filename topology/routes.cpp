// Finds shortest paths by breadth-first search (Boost's). A port is a NIC, or another site of a
// node that is joined to the fabric (the switches between nodes). Inside a node there is one search
// from each GPU and each port. In the fabric there is one tree of shortest paths to each set of
// switches that a port hangs on. A route is put together from these when it is asked for:
//   GPU -> port (node's paths) -> switches (tree) -> port -> GPU (other node's paths)
#include "topology/routes.h"

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <limits>
#include <set>
#include <tuple>

#include "base/check.h"

namespace tandem {

// A GPU's path to a port of its node, or a port's path to the GPU.
struct Routes::PortPath {
  int port = 0;  // the port's place in its node
  int hops = 0;
  std::vector<int> edges;  // links by their number in the node
};

struct Routes::NodePaths {
  int gpus = 0;
  // [from * gpus + to]: the edges of the path; nullopt: there is no path.
  std::vector<std::optional<std::vector<int>>> gpu_to_gpu;
  std::vector<std::vector<PortPath>> to_ports, from_ports;  // by GPU, the shortest first
  bool complete = true;                                     // every GPU reaches every other
};

struct Routes::Node {
  const NodePaths* paths = nullptr;
  std::vector<int> links;          // by number in the node; -1: a wire
  std::vector<const Tree*> trees;  // by site: the tree that leads to it; nullptr: none
  std::vector<SiteId> sites;
};

struct Routes::Tree {
  std::vector<int> distance;  // by switch, in hops; -1: there is no path
  std::vector<int> next;      // by switch: the next link; kSeveral if several are equally good
};

// Chooses among equally short paths to a destination's port by the port's number, as D-mod-k does.
// Going up, of W switches it takes number % W, and of the C cables to that switch number / W % C.
// The next level goes on with number / W. Going down it makes at each level the choice that it made
// there going up. So 32 ports of a leaf with 4 spines and 8 cables to each spine share no cable:
//   port 13 goes by spine 13 % 4 = 1 and cable 13 / 4 % 8 = 3 of its leaf, both ways.
class Routes::EqualWays {
 public:
  // `hops`: of the whole route between the ports. `quotients`: memory to use.
  EqualWays(int number, int hops, std::vector<int>* quotients)
      : hops_(hops), quotients_(*quotients) {
    quotients_.assign(1, number);
  }

  // Counts a hop where there is no choice.
  void pass() { quotients_.push_back(quotients_.back()); }

  // Chooses the next hop among those that fit. Hops to the same switch (its cables) are neighbours
  // in `hops`.
  template <class Fits>
  const Hop& pick(const std::vector<Hop>& hops, Fits fits) {
    if (hops.size() == 1) {
      pass();
      return hops.front();
    }
    const auto is_first_cable = [&](const Hop& hop) {
      return fits(hop) && (&hop == hops.data() || (&hop - 1)->far_switch != hop.far_switch);
    };
    const int hop = static_cast<int>(quotients_.size()) - 1;
    const int switches = static_cast<int>(std::ranges::count_if(hops, is_first_cable));
    quotients_.push_back(quotients_.back() / switches);
    // Going down, hop h takes the cables that hop hops - 1 - h took going up, and so ends on the
    // level on which hop hops - 2 - h ended.
    const int hop_to_level = std::clamp(hops_ - 2 - hop, 0, hop);
    const int hop_by_cables = std::min(hop, hops_ - 1 - hop);
    int place = quotients_[hop_to_level] % switches;
    const auto first = std::ranges::find_if(
        hops, [&](const Hop& each) { return is_first_cable(each) && place-- == 0; });
    const auto end = std::find_if(
        first, hops.end(), [&](const Hop& each) { return each.far_switch != first->far_switch; });
    return first[quotients_[hop_by_cables + 1] % (end - first)];
  }

 private:
  int hops_;
  std::vector<int>& quotients_;  // of the port's number: before each hop, and after the last one
};

namespace {

constexpr int kSeveral = -2;

// A node's own graph. Sites are given by their place in the node. An edge's number is its place in
// `edges`.
struct NodeWiring {
  std::vector<Vertex::Kind> kinds;
  std::vector<int> ports;
  std::vector<std::pair<int, int>> edges;  // from, to
  LinkGraph graph;

  // Returns the same key for nodes that are wired alike.
  std::vector<int> key() const {
    std::vector<int> key = {static_cast<int>(kinds.size()), static_cast<int>(ports.size())};
    key.reserve(2 + kinds.size() + ports.size() + 2 * edges.size());
    key.insert(key.end(), kinds.begin(), kinds.end());
    key.insert(key.end(), ports.begin(), ports.end());
    for (const auto& [from, to] : edges) key.insert(key.end(), {from, to});
    return key;
  }

  void make_graph() {
    while (boost::num_vertices(graph) < kinds.size()) boost::add_vertex(graph);
    for (int i = 0; i < static_cast<int>(edges.size()); ++i)
      boost::add_edge(edges[i].first, edges[i].second, SiteEdge{i}, graph);
  }
};

// Filters edges: a NIC does not pass on messages inside its node.
struct MayPass {
  const NodeWiring* node = nullptr;
  SiteId root = 0;

  bool operator()(const LinkGraph::edge_descriptor& edge) const {
    const SiteId from = boost::source(edge, node->graph);
    return from == root || node->kinds[from] != Vertex::Nic;
  }
};

// The shortest paths from one site of a node to all its others.
class FromRoot {
 public:
  FromRoot(const NodeWiring& node, int root)
      : node_(node), root_(root), hops_(node.kinds.size(), -1), last_(node.kinds.size()) {
    const MayPass may_pass{&node, root_};
    const boost::filtered_graph<LinkGraph, MayPass> passable(node.graph, may_pass);
    hops_[root_] = 0;
    boost::breadth_first_search(
        passable, root_,
        boost::visitor(boost::make_bfs_visitor(
            std::pair(boost::record_distances(hops_.data(), boost::on_tree_edge()),
                      boost::record_edge_predecessors(last_.data(), boost::on_tree_edge())))));
  }

  int hops(int site) const { return hops_[site]; }  // -1: there is no way

  std::vector<int> edges(int site) const {
    std::vector<int> edges;
    for (SiteId at = site; at != root_; at = boost::source(last_[at], node_.graph))
      edges.push_back(node_.graph[last_[at]].link);
    std::ranges::reverse(edges);
    return edges;
  }

 private:
  const NodeWiring& node_;
  SiteId root_;
  std::vector<int> hops_;
  std::vector<LinkGraph::edge_descriptor> last_;
};

}  // namespace

Routes::Routes(const SiteGraph& graph, std::vector<SiteId> gpus, std::vector<bool> failed)
    : graph_(graph),
      gpus_(std::move(gpus)),
      failed_(std::move(failed)),
      link_end_(failed_.size()),
      place_(boost::num_vertices(graph)),
      to_fabric_(boost::num_vertices(graph)),
      from_fabric_(boost::num_vertices(graph)) {
  number_sites();
  collect_hops();
  number_ports();
}

Routes::~Routes() = default;

// Numbers the sites of each node, GPUs first, and the switches of the fabric.
void Routes::number_sites() {
  const auto add_to_node = [this](SiteId site) {
    std::vector<SiteId>& sites = sites_[graph_[site].node];
    place_[site] = static_cast<int>(sites.size());
    sites.push_back(site);
  };
  for (const SiteId gpu : gpus_) {
    sites_.resize(std::max<std::size_t>(sites_.size(), graph_[gpu].node + 1));
    add_to_node(gpu);
  }
  int switches = 0;
  for (SiteId site = 0; site < place_.size(); ++site) {
    if (graph_[site].node < 0) {
      place_[site] = switches++;
    } else if (graph_[site].kind != Vertex::Gpu) {
      add_to_node(site);
    }
  }
  switch_links_.resize(switches);
  nodes_.resize(sites_.size());
}

// Collects the links between nodes and the fabric, by direction, and those between switches.
void Routes::collect_hops() {
  for (std::size_t i = 0; i < switch_links_.size(); ++i) boost::add_vertex(backwards_);
  for (auto [edge, end] = boost::edges(graph_); edge != end; ++edge) {
    const SiteId from = boost::source(*edge, graph_);
    const SiteId to = boost::target(*edge, graph_);
    const int link = graph_[*edge].link;
    const bool from_node = graph_[from].node >= 0;
    const bool to_node = graph_[to].node >= 0;
    if ((link >= 0 && failed_[link]) || (from_node && to_node)) continue;
    if (from_node) {
      to_fabric_[from].push_back({link, place_[to]});
    } else if (to_node) {
      from_fabric_[to].push_back({link, place_[from]});
    } else {
      switch_links_[place_[from]].push_back({link, place_[to]});
      link_end_[link] = place_[to];
      boost::add_edge(place_[to], place_[from], SiteEdge{link}, backwards_);
    }
  }
  for (auto* all : {&to_fabric_, &from_fabric_, &switch_links_}) {
    for (std::vector<Hop>& hops : *all) std::ranges::stable_sort(hops, {}, &Hop::far_switch);
  }
}

// Numbers the ports leaf by leaf, and the leaves below one spine one after the other. Leaves and
// spines come in the order of their first ports.
void Routes::number_ports() {
  struct Port {
    int spine, leaf, order;  // order: by node; switches have the order of their first port
    SiteId site;
  };
  std::vector<Port> ports;
  const int none = std::numeric_limits<int>::max();
  // By switch: the order of the first port on it (leaves), or on a leaf below it (spines).
  std::vector<int> first_port(switch_links_.size(), none);
  for (const std::vector<SiteId>& sites : sites_) {
    for (const SiteId site : sites) {
      if (from_fabric_[site].empty()) continue;
      const int order = static_cast<int>(ports.size());
      int& leaf = first_port[from_fabric_[site].front().far_switch];
      leaf = std::min(leaf, order);
      ports.push_back({none, leaf, order, site});
    }
  }
  const std::vector<int> first_port_of_leaf = first_port;
  const auto for_each_spine = [&](const Port& port, auto visit) {
    for (const Hop& hop : switch_links_[from_fabric_[port.site].front().far_switch]) {
      const bool is_leaf = first_port_of_leaf[hop.far_switch] != none;
      if (!is_leaf) visit(first_port[hop.far_switch]);
    }
  };
  for (const Port& port : ports) {
    if (port.leaf != port.order) continue;  // one port of each leaf is enough
    for_each_spine(port, [&](int& spine) { spine = std::min(spine, port.leaf); });
  }
  for (Port& port : ports)
    for_each_spine(port, [&](int spine) { port.spine = std::min(port.spine, spine); });
  std::ranges::sort(ports, {},
                    [](const Port& port) { return std::tuple(port.spine, port.leaf, port.order); });
  port_number_.resize(from_fabric_.size());
  for (std::size_t i = 0; i < ports.size(); ++i) port_number_[ports[i].site] = static_cast<int>(i);
}

// Returns the paths inside a node, from the cache if another node is wired alike. Fills `links`
// with the link of each of the node's edges.
const Routes::NodePaths& Routes::paths_inside(const std::vector<SiteId>& sites,
                                              std::vector<int>* links) const {
  NodeWiring wiring;
  const auto has_nics =
      std::ranges::any_of(sites, [&](SiteId site) { return graph_[site].kind == Vertex::Nic; });
  for (const SiteId site : sites) {
    const int place = place_[site];
    wiring.kinds.push_back(graph_[site].kind);
    // A failed NIC still counts as a port, so that the other GPUs keep their NICs.
    const bool joins_fabric = !to_fabric_[site].empty() || !from_fabric_[site].empty();
    const bool is_port = has_nics ? graph_[site].kind == Vertex::Nic : joins_fabric;
    if (is_port) wiring.ports.push_back(place);
    for (auto [edge, end] = boost::out_edges(site, graph_); edge != end; ++edge) {
      const SiteId to = boost::target(*edge, graph_);
      const int link = graph_[*edge].link;
      if (graph_[to].node < 0 || (link >= 0 && failed_[link])) continue;
      wiring.edges.emplace_back(place, place_[to]);
      links->push_back(link);
    }
  }
  std::unique_ptr<NodePaths>& cached = node_paths_[wiring.key()];
  if (cached) return *cached;
  wiring.make_graph();
  cached = std::make_unique<NodePaths>();
  const auto gpus = static_cast<int>(std::ranges::count(wiring.kinds, Vertex::Gpu));
  const auto ports = static_cast<int>(wiring.ports.size());
  cached->gpus = gpus;
  cached->to_ports.resize(gpus);
  cached->from_ports.resize(gpus);
  std::vector<FromRoot> from_port;
  for (const int port : wiring.ports) from_port.emplace_back(wiring, port);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const FromRoot paths(wiring, gpu);
    for (int to = 0; to < gpus; ++to) {
      cached->gpu_to_gpu.emplace_back();
      if (paths.hops(to) >= 0) cached->gpu_to_gpu.back() = paths.edges(to);
      cached->complete &= paths.hops(to) >= 0;
    }
    // The GPU's own port comes first, then the following ones.
    for (int i = 0; i < ports; ++i) {
      const int number = (static_cast<int>(std::int64_t{gpu} * ports / gpus) + i) % ports;
      const int port = wiring.ports[number];
      const FromRoot& back = from_port[number];
      if (paths.hops(port) >= 0)
        cached->to_ports[gpu].push_back({port, paths.hops(port), paths.edges(port)});
      if (back.hops(gpu) >= 0)
        cached->from_ports[gpu].push_back({port, back.hops(gpu), back.edges(gpu)});
    }
    std::ranges::stable_sort(cached->to_ports[gpu], {}, &PortPath::hops);
    std::ranges::stable_sort(cached->from_ports[gpu], {}, &PortPath::hops);
  }
  return *cached;
}

const Routes::Node& Routes::node(int number) const {
  std::unique_ptr<Node>& cached = nodes_[number];
  if (cached) return *cached;
  cached = std::make_unique<Node>();
  cached->sites = sites_[number];
  cached->paths = &paths_inside(cached->sites, &cached->links);
  for (const SiteId site : cached->sites) cached->trees.push_back(tree_to(from_fabric_[site]));
  return *cached;
}

// Returns the shortest paths from every switch to a port, whose links from the fabric are given. A
// path ends at the nearest of the port's switches. Ports on the same switches share one tree.
const Routes::Tree* Routes::tree_to(const std::vector<Hop>& from_fabric) const {
  if (from_fabric.empty()) return nullptr;
  std::vector<int> switches;
  for (const Hop& hop : from_fabric) switches.push_back(hop.far_switch);
  std::ranges::sort(switches);
  switches.erase(std::unique(switches.begin(), switches.end()), switches.end());
  std::unique_ptr<Tree>& cached = trees_[switches];
  if (cached) return cached.get();
  cached = std::make_unique<Tree>();
  cached->distance.resize(switch_links_.size(), -1);
  cached->next.resize(switch_links_.size());
  for (const int at : switches) cached->distance[at] = 0;

  struct Grow : boost::default_bfs_visitor {
    explicit Grow(Tree* to_grow) : tree(to_grow) {}
    void tree_edge(const LinkGraph::edge_descriptor& edge, const LinkGraph& graph) {
      const SiteId near = boost::source(edge, graph);
      const SiteId far = boost::target(edge, graph);
      tree->distance[far] = tree->distance[near] + 1;
      tree->next[far] = graph[edge].link;
    }
    void non_tree_edge(const LinkGraph::edge_descriptor& edge, const LinkGraph& graph) {
      const SiteId near = boost::source(edge, graph);
      const SiteId far = boost::target(edge, graph);
      if (tree->distance[far] == tree->distance[near] + 1) tree->next[far] = kSeveral;
    }
    Tree* tree;
  };
  boost::queue<SiteId> queue;
  std::vector<boost::default_color_type> colors(switch_links_.size());
  boost::breadth_first_search(backwards_, switches.begin(), switches.end(), queue,
                              Grow(cached.get()), colors.data());
  return cached.get();
}

// Adds the links from port `out` through the fabric to port `in`.
void Routes::add_fabric_links(SiteId out, SiteId in, const Tree& tree,
                              std::vector<LinkId>* links) const {
  int nearest = std::numeric_limits<int>::max();
  for (const Hop& hop : to_fabric_[out]) {
    const int distance = tree.distance[hop.far_switch];
    if (distance >= 0) nearest = std::min(nearest, distance);
  }
  EqualWays ways(port_number_[in], nearest + 2, &quotients_);
  const Hop& up = ways.pick(
      to_fabric_[out], [&](const Hop& hop) { return tree.distance[hop.far_switch] == nearest; });
  links->push_back(LinkId{up.link});
  int at = up.far_switch;
  while (tree.distance[at] > 0) {
    int link = tree.next[at];
    if (link != kSeveral) {
      ways.pass();
    } else {
      const auto is_nearer = [&](const Hop& hop) {
        return tree.distance[hop.far_switch] == tree.distance[at] - 1;
      };
      link = ways.pick(switch_links_[at], is_nearer).link;
    }
    links->push_back(LinkId{link});
    at = link_end_[link];
  }
  const Hop& down =
      ways.pick(from_fabric_[in], [&](const Hop& hop) { return hop.far_switch == at; });
  links->push_back(LinkId{down.link});
}

// Returns the ports of two GPUs' nodes with the fewest hops inside the nodes, among those that the
// fabric joins. If only one of the GPUs can use its own port, it is the destination; the source
// then sends by another GPU's port, as NCCL does with PXN.
Routes::PortPair Routes::nearest_ports(int from, int to) const {
  const Node& here = node(graph_[gpus_[from]].node);
  const Node& there = node(graph_[gpus_[to]].node);
  PortPair best;
  int best_hops = std::numeric_limits<int>::max();
  const std::vector<PortPath>& outs = here.paths->to_ports[place_[gpus_[from]]];
  for (const PortPath& in : there.paths->from_ports[place_[gpus_[to]]]) {
    if (outs.empty() || in.hops + outs.front().hops >= best_hops) break;
    const Tree* tree = there.trees[in.port];
    for (const PortPath& out : outs) {
      if (in.hops + out.hops >= best_hops) break;
      const auto leads = [&](const Hop& hop) { return tree->distance[hop.far_switch] >= 0; };
      if (tree == nullptr || !std::ranges::any_of(to_fabric_[here.sites[out.port]], leads))
        continue;
      best_hops = in.hops + out.hops;
      best = {&out, &in};
    }
  }
  return best;
}

bool Routes::find(int from, int to, std::vector<LinkId>* links) const {
  links->clear();
  if (from == to) return true;
  const Node& here = node(graph_[gpus_[from]].node);
  const Node& there = node(graph_[gpus_[to]].node);
  const auto add = [&](const Node& node, const std::vector<int>& edges) {
    for (const int edge : edges) {
      if (node.links[edge] >= 0) links->push_back(LinkId{node.links[edge]});
    }
  };
  if (&here == &there) {
    const int from_place = place_[gpus_[from]], to_place = place_[gpus_[to]];
    const auto& inside = here.paths->gpu_to_gpu[from_place * here.paths->gpus + to_place];
    if (inside) add(here, *inside);
    if (inside) return true;
  }
  const PortPair ports = nearest_ports(from, to);
  if (ports.out == nullptr) return false;
  add(here, ports.out->edges);
  add_fabric_links(here.sites[ports.out->port], there.sites[ports.in->port],
                   *there.trees[ports.in->port], links);
  add(there, ports.in->edges);
  return true;
}

// Returns the strongly connected components of the fabric that a GPU sends into, then -1, then
// those that it receives from. GPUs with equal results reach the same GPUs of other nodes.
std::vector<int> Routes::fabric_reach(int gpu, const std::vector<int>& component) const {
  const Node& own = node(graph_[gpus_[gpu]].node);
  const auto components = [&](const std::vector<PortPath>& paths,
                              const std::vector<std::vector<Hop>>& hops) {
    std::set<int> found;
    for (const PortPath& path : paths) {
      for (const Hop& hop : hops[own.sites[path.port]]) found.insert(component[hop.far_switch]);
    }
    return found;
  };
  const int place = place_[gpus_[gpu]];
  const std::set<int> into = components(own.paths->to_ports[place], to_fabric_);
  const std::set<int> from = components(own.paths->from_ports[place], from_fabric_);
  std::vector<int> reach(into.begin(), into.end());
  reach.push_back(-1);
  reach.insert(reach.end(), from.begin(), from.end());
  return reach;
}

std::optional<std::pair<int, int>> Routes::unreachable_pair() const {
  std::vector<int> component(switch_links_.size());
  boost::strong_components(backwards_, component.data());
  std::vector<LinkId> links;
  // GPUs of equal reach need only one representative, and a second one on another node, so that
  // there are pairs between nodes.
  std::map<std::vector<int>, std::vector<int>> gpus_by_reach;
  const auto node_of = [this](int gpu) { return graph_[gpus_[gpu]].node; };
  for (int gpu = 0; gpu < static_cast<int>(gpus_.size()); ++gpu) {
    const Node& own = node(node_of(gpu));
    for (int i = 0; i < own.paths->gpus && !own.paths->complete; ++i) {
      const int other = gpu - place_[gpus_[gpu]] + i;
      if (!find(gpu, other, &links)) return std::pair(gpu, other);
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
