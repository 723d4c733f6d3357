// Shortest paths by breadth-first search (Boost's). Inside a node: one search from each GPU and
// each port (a NIC, or what else joins the node to the fabric). Between nodes: one tree of shortest
// paths to each set of switches that ports hang on. A route is put together from both when asked
// for.
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

// A GPU's way to a port of its node, or from a port to it. A port is a NIC, or another site of the
// node that is joined to the fabric. Links are given by their number in the node.
struct Routes::Exit {
  int port = 0;  // the port's place in its node
  int hops = 0;
  std::vector<int> edges;
};

struct Routes::Inside {
  int gpus = 0;
  std::vector<std::optional<std::vector<int>>> between;  // [from * gpus + to]
  std::vector<std::vector<Exit>> out, in;                // by GPU, the shortest first
  bool complete = true;                                  // whether every GPU reaches every other
};

struct Routes::Node {
  const Inside* inside = nullptr;
  std::vector<int> links;          // by number in the node; -1: a wire
  std::vector<const Tree*> trees;  // by site: the tree that leads to it; nullptr: none
  std::vector<SiteId> sites;
};

struct Routes::Tree {
  std::vector<int> distance;  // by switch, in hops; -1: there is no way
  std::vector<int> next;      // by switch: the next link; kSeveral if several are equal
};

// Chooses among equally short ways to a destination's port by its number, as D-mod-k does. Going
// up, of W switches it takes the number's remainder, and of the cables to that switch the
// quotient's remainder; the next level goes on with the quotient. Going down it takes at each level
// what it took there going up. So 32 ports of a leaf with 4 spines and 8 cables to each share no
// cable:
//   port 13 goes by spine 13 % 4 = 1 and cable 13 / 4 % 8 = 3 of its leaf, both ways.
class Routes::EqualWays {
 public:
  EqualWays(int number, int hops, std::vector<int>* scratch) : hops_(hops), left_(*scratch) {
    left_.assign(1, number);
  }

  // Takes the next hop where there is no choice.
  void pass() { left_.push_back(left_.back()); }

  // Takes the next hop, one of those that fit. Hops to the same switch stand side by side.
  template <class Fits>
  const Hop& pick(const std::vector<Hop>& hops, Fits fits) {
    if (hops.size() == 1) {
      pass();
      return hops.front();
    }
    const auto begins = [&](const Hop& hop) {  // the cables to another switch
      return fits(hop) && (&hop == hops.data() || (&hop - 1)->at != hop.at);
    };
    const int hop = static_cast<int>(left_.size()) - 1;
    const int ways = static_cast<int>(std::ranges::count_if(hops, begins));
    left_.push_back(left_.back() / ways);
    // Down, hop h leads to the level that hop hops - 2 - h led to, by the cables of the hop after.
    int place = left_[std::clamp(hops_ - 2 - hop, 0, hop)] % ways;
    const auto first =
        std::ranges::find_if(hops, [&](const Hop& each) { return begins(each) && place-- == 0; });
    const auto cables =
        std::find_if(first, hops.end(), [&](const Hop& each) { return each.at != first->at; }) -
        first;
    return first[left_[std::min(hop, hops_ - 1 - hop) + 1] % cables];
  }

 private:
  int hops_;
  std::vector<int>& left_;  // the number before each hop, and after the last
};

namespace {

constexpr int kSeveral = -2;

// A node's own graph. Sites are given by their place in the node, links by their number in it.
struct NodeWiring {
  std::vector<Vertex::Kind> kinds;
  std::vector<int> ports;
  std::vector<std::pair<int, int>> edges;
  LinkGraph graph;

  // Returns the same key for nodes that are wired alike.
  std::vector<int> key() const {
    std::vector<int> key = {static_cast<int>(kinds.size()), static_cast<int>(ports.size())};
    key.reserve(2 + kinds.size() + ports.size() + 2 * edges.size());
    key.insert(key.end(), kinds.begin(), kinds.end());
    key.insert(key.end(), ports.begin(), ports.end());
    for (const auto& [from, to] : edges) {
      key.push_back(from);
      key.push_back(to);
    }
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
      target_(failed_.size()),
      place_(boost::num_vertices(graph)),
      up_(boost::num_vertices(graph)),
      down_(boost::num_vertices(graph)) {
  const auto stand = [this](SiteId site) {
    std::vector<SiteId>& sites = sites_[graph_[site].node];
    place_[site] = static_cast<int>(sites.size());
    sites.push_back(site);
  };
  for (const SiteId gpu : gpus_) {
    sites_.resize(std::max<std::size_t>(sites_.size(), graph_[gpu].node + 1));
    stand(gpu);
  }
  int switches = 0;
  for (SiteId site = 0; site < place_.size(); ++site) {
    if (graph_[site].node < 0) {
      place_[site] = switches++;
    } else if (graph_[site].kind != Vertex::Gpu) {
      stand(site);
    }
  }
  between_.resize(switches);
  for (int i = 0; i < switches; ++i) boost::add_vertex(backwards_);
  nodes_.resize(sites_.size());
  for (auto [edge, end] = boost::edges(graph_); edge != end; ++edge) {
    const SiteId from = boost::source(*edge, graph_);
    const SiteId to = boost::target(*edge, graph_);
    const int link = graph_[*edge].link;
    const bool from_node = graph_[from].node >= 0;
    const bool to_node = graph_[to].node >= 0;
    if ((link >= 0 && failed_[link]) || (from_node && to_node)) continue;
    if (from_node) {
      up_[from].push_back({link, place_[to]});
    } else if (to_node) {
      down_[to].push_back({link, place_[from]});
    } else {
      between_[place_[from]].push_back({link, place_[to]});
      target_[link] = place_[to];
      boost::add_edge(place_[to], place_[from], SiteEdge{link}, backwards_);
    }
  }
  for (auto* all : {&up_, &down_, &between_}) {
    for (std::vector<Hop>& hops : *all) std::ranges::stable_sort(hops, {}, &Hop::at);
  }
  number_ports();
}

// Numbers the ports leaf by leaf, and the leaves below one spine one after the other. Leaves and
// spines come in the order of their first ports.
void Routes::number_ports() {
  struct Port {
    int spine, leaf, node_order;  // a switch stands for its first port
    SiteId site;
  };
  std::vector<Port> ports;
  const int none = std::numeric_limits<int>::max();
  std::vector<int> first(between_.size(), none);  // by switch: its first port, or that below it
  for (const std::vector<SiteId>& sites : sites_) {
    for (const SiteId site : sites) {
      if (down_[site].empty()) continue;
      const int order = static_cast<int>(ports.size());
      int& leaf = first[down_[site].front().at];
      leaf = std::min(leaf, order);
      ports.push_back({none, leaf, order, site});
    }
  }
  const std::vector<int> leaves = first;
  const auto for_each_spine = [&](const Port& port, auto visit) {
    for (const Hop& hop : between_[down_[port.site].front().at]) {
      if (leaves[hop.at] == none) visit(first[hop.at]);
    }
  };
  for (const Port& port : ports) {
    if (port.leaf != port.node_order) continue;
    for_each_spine(port, [&](int& spine) { spine = std::min(spine, port.leaf); });
  }
  for (Port& port : ports)
    for_each_spine(port, [&](int spine) { port.spine = std::min(port.spine, spine); });
  std::ranges::sort(ports, {}, [](const Port& port) {
    return std::tuple(port.spine, port.leaf, port.node_order);
  });
  number_.resize(down_.size());
  for (std::size_t i = 0; i < ports.size(); ++i) number_[ports[i].site] = static_cast<int>(i);
}

Routes::~Routes() = default;

// Returns the ways inside a node, from the cache if another node is wired alike. Fills `links` with
// the links of its edges.
const Routes::Inside& Routes::inside(const std::vector<SiteId>& sites,
                                     std::vector<int>* links) const {
  NodeWiring wiring;
  const auto has_nics =
      std::ranges::any_of(sites, [&](SiteId site) { return graph_[site].kind == Vertex::Nic; });
  for (const SiteId site : sites) {
    const int place = place_[site];
    wiring.kinds.push_back(graph_[site].kind);
    // A failed NIC still counts as a port, so that the other GPUs keep their NICs.
    const bool is_nic = graph_[site].kind == Vertex::Nic;
    if (is_nic || (!has_nics && !(up_[site].empty() && down_[site].empty())))
      wiring.ports.push_back(place);
    for (auto [edge, end] = boost::out_edges(site, graph_); edge != end; ++edge) {
      const SiteId to = boost::target(*edge, graph_);
      const int link = graph_[*edge].link;
      if (graph_[to].node < 0 || (link >= 0 && failed_[link])) continue;
      wiring.edges.emplace_back(place, place_[to]);
      links->push_back(link);
    }
  }
  std::unique_ptr<Inside>& known = insides_[wiring.key()];
  if (known) return *known;
  wiring.make_graph();
  known = std::make_unique<Inside>();
  const auto gpus = static_cast<int>(std::ranges::count(wiring.kinds, Vertex::Gpu));
  const auto ports = static_cast<int>(wiring.ports.size());
  known->gpus = gpus;
  known->out.resize(gpus);
  known->in.resize(gpus);
  std::vector<FromRoot> from_port;
  for (const int port : wiring.ports) from_port.emplace_back(wiring, port);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const FromRoot paths(wiring, gpu);
    for (int to = 0; to < gpus; ++to) {
      known->between.emplace_back();
      if (paths.hops(to) >= 0) known->between.back() = paths.edges(to);
      known->complete &= paths.hops(to) >= 0;
    }
    // The GPU's own port comes first, then the following ones.
    for (int i = 0; i < ports; ++i) {
      const int number = (static_cast<int>(std::int64_t{gpu} * ports / gpus) + i) % ports;
      const int port = wiring.ports[number];
      const FromRoot& back = from_port[number];
      if (paths.hops(port) >= 0)
        known->out[gpu].push_back({port, paths.hops(port), paths.edges(port)});
      if (back.hops(gpu) >= 0) known->in[gpu].push_back({port, back.hops(gpu), back.edges(gpu)});
    }
    std::ranges::stable_sort(known->out[gpu], {}, &Exit::hops);
    std::ranges::stable_sort(known->in[gpu], {}, &Exit::hops);
  }
  return *known;
}

const Routes::Node& Routes::node(int number) const {
  std::unique_ptr<Node>& known = nodes_[number];
  if (known) return *known;
  known = std::make_unique<Node>();
  known->sites = sites_[number];
  known->inside = &inside(known->sites, &known->links);
  for (const SiteId site : known->sites) known->trees.push_back(tree_to(down_[site]));
  return *known;
}

// Returns the shortest paths to the nearest of the switches from which the links `down` lead to a
// port. Ports on the same switches share one tree.
const Routes::Tree* Routes::tree_to(const std::vector<Hop>& down) const {
  if (down.empty()) return nullptr;
  std::vector<int> switches;
  for (const Hop& hop : down) switches.push_back(hop.at);
  std::ranges::sort(switches);
  switches.erase(std::unique(switches.begin(), switches.end()), switches.end());
  std::unique_ptr<Tree>& known = trees_[switches];
  if (known) return known.get();
  known = std::make_unique<Tree>();
  known->distance.resize(between_.size(), -1);
  known->next.resize(between_.size());
  for (const int at : switches) known->distance[at] = 0;

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
  std::vector<boost::default_color_type> colors(between_.size());
  boost::breadth_first_search(backwards_, switches.begin(), switches.end(), queue,
                              Grow(known.get()), colors.data());
  return known.get();
}

// Adds the links from port `out` through the fabric to port `in`.
void Routes::cross(SiteId out, SiteId in, const Tree& tree, std::vector<LinkId>* links) const {
  int nearest = std::numeric_limits<int>::max();
  for (const Hop& hop : up_[out]) {
    if (tree.distance[hop.at] >= 0) nearest = std::min(nearest, tree.distance[hop.at]);
  }
  EqualWays ways(number_[in], nearest + 2, &left_);
  const Hop& up =
      ways.pick(up_[out], [&](const Hop& hop) { return tree.distance[hop.at] == nearest; });
  links->push_back(LinkId{up.link});
  int at = up.at;
  while (tree.distance[at] > 0) {
    int link = tree.next[at];
    if (link != kSeveral) {
      ways.pass();
    } else {
      const auto is_nearer = [&](const Hop& hop) {
        return tree.distance[hop.at] == tree.distance[at] - 1;
      };
      link = ways.pick(between_[at], is_nearer).link;
    }
    links->push_back(LinkId{link});
    at = target_[link];
  }
  const Hop& down = ways.pick(down_[in], [&](const Hop& hop) { return hop.at == at; });
  links->push_back(LinkId{down.link});
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
  const int from_place = place_[gpus_[from]];
  const int to_place = place_[gpus_[to]];
  if (&here == &there) {
    const auto& own = here.inside->between[from_place * here.inside->gpus + to_place];
    if (own) add(here, *own);
    if (own) return true;
  }
  // Takes the two ports with the fewest hops inside the nodes, among those that the fabric joins.
  // If only one of the GPUs can use its own port, it is the destination; the source then sends by
  // another GPU's port, as NCCL does with PXN.
  const Exit* best_out = nullptr;
  const Exit* best_in = nullptr;
  int best = std::numeric_limits<int>::max();
  const std::vector<Exit>& outs = here.inside->out[from_place];
  for (const Exit& in : there.inside->in[to_place]) {
    if (outs.empty() || in.hops + outs.front().hops >= best) break;
    const Tree* tree = there.trees[in.port];
    for (const Exit& out : outs) {
      if (in.hops + out.hops >= best) break;
      const auto leads = [&](const Hop& hop) { return tree->distance[hop.at] >= 0; };
      if (tree == nullptr || !std::ranges::any_of(up_[here.sites[out.port]], leads)) continue;
      best = in.hops + out.hops;
      best_out = &out;
      best_in = &in;
    }
  }
  if (best_out == nullptr) return false;
  add(here, best_out->edges);
  cross(here.sites[best_out->port], there.sites[best_in->port], *there.trees[best_in->port], links);
  add(there, best_in->edges);
  return true;
}

// Returns the components of the fabric that a GPU sends into, then -1, then those that it receives
// from. GPUs with equal results reach the same GPUs of other nodes.
std::vector<int> Routes::reach_of(int gpu, const std::vector<int>& component) const {
  const Node& own = node(graph_[gpus_[gpu]].node);
  const auto parts = [&](const std::vector<Exit>& exits,
                         const std::vector<std::vector<Hop>>& hops) {
    std::set<int> found;
    for (const Exit& exit : exits) {
      for (const Hop& hop : hops[own.sites[exit.port]]) found.insert(component[hop.at]);
    }
    return found;
  };
  const int place = place_[gpus_[gpu]];
  std::vector<int> reach;
  for (const int part : parts(own.inside->out[place], up_)) reach.push_back(part);
  reach.push_back(-1);
  for (const int part : parts(own.inside->in[place], down_)) reach.push_back(part);
  return reach;
}

std::optional<std::pair<int, int>> Routes::unreachable_pair() const {
  std::vector<int> component(between_.size());
  boost::strong_components(backwards_, component.data());
  std::vector<LinkId> links;
  // GPUs of equal reach need only one representative, and a second one on another node, so that
  // there are pairs between nodes.
  std::map<std::vector<int>, std::vector<int>> asked;
  const auto node_of = [this](int gpu) { return graph_[gpus_[gpu]].node; };
  for (int gpu = 0; gpu < static_cast<int>(gpus_.size()); ++gpu) {
    const Node& own = node(node_of(gpu));
    for (int i = 0; i < own.inside->gpus && !own.inside->complete; ++i) {
      const int other = gpu - place_[gpus_[gpu]] + i;
      if (!find(gpu, other, &links)) return std::pair(gpu, other);
    }
    std::vector<int>& alike = asked[reach_of(gpu, component)];
    if (alike.empty() || (alike.size() == 1 && node_of(alike[0]) != node_of(gpu)))
      alike.push_back(gpu);
  }
  for (const auto& [from_reach, from_gpus] : asked) {
    for (const auto& [to_reach, to_gpus] : asked) {
      for (const int from : from_gpus) {
        for (const int to : to_gpus) {
          if (node_of(from) != node_of(to) && !find(from, to, &links)) return std::pair(from, to);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace tandem
