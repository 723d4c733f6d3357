// Finds shortest paths through the fabric by breadth-first search backwards from the destination's
// switches, which gives one tree for all sources. In: the links between ports and switches. Out:
// the links of one path, of which D-mod-k (EqualWays) chooses where several are equally short.
#include "topology/fabric_paths.h"

#include <algorithm>
#include <boost/graph/strong_components.hpp>
#include <limits>
#include <utility>

namespace tandem {
namespace {

// Chooses among equally short paths to a destination's port by the port's number, as D-mod-k does.
// Going up, of W switches it takes number % W, and of the C cables to that switch number / W % C.
// The next level goes on with number / W. Going down it makes at each level the choice that it made
// there going up. So 32 ports of a leaf with 4 spines and 8 cables to each spine share no cable:
//   port 13 goes by spine 13 % 4 = 1 and cable 13 / 4 % 8 = 3 of its leaf, both ways.
class EqualWays {
 public:
  using Hop = FabricPaths::Hop;

  // `hops`: of the whole path between the ports. `quotients`: memory to use.
  EqualWays(int number, int hops, std::vector<int>* quotients)
      : hops_(hops), quotients_(*quotients) {
    quotients_.assign(1, number);
  }

  // Takes a hop that is the only one.
  const Hop& pass(const Hop& only) {
    quotients_.push_back(quotients_.back());
    return only;
  }

  // Chooses the next hop among those that fit. Hops to the same switch (its cables) are neighbours
  // in `hops`.
  template <class Fits>
  const Hop& pick(const std::vector<Hop>& hops, Fits fits) {
    if (hops.size() == 1) return pass(hops.front());
    const auto is_first_cable = [&](const Hop& hop) {
      return fits(hop) && (&hop == hops.data() || (&hop - 1)->far_switch != hop.far_switch);
    };
    const int hop = static_cast<int>(quotients_.size()) - 1;
    const int switches = static_cast<int>(std::ranges::count_if(hops, is_first_cable));
    quotients_.push_back(quotients_.back() / switches);
    // With 4 hops, 0 and 1 go up. Hop 2 goes down by the cables of hop 1, its mirror, to the level
    // on which hop 0 ended. For port 13 above, the quotients before hops 0 to 3 are 13, 13, 3, 3:
    // hop 0 has one way, hop 1 divides by 4 spines, and hop 2 has one leaf to go to.
    const int mirror = hops_ - 1 - hop;
    const bool goes_up = hop < mirror;
    const int hop_up_to_level = goes_up ? hop : std::max(mirror - 1, 0);
    const int hop_up_by_cables = goes_up ? hop : mirror;
    int place = quotients_[hop_up_to_level] % switches;
    const auto first = std::ranges::find_if(
        hops, [&](const Hop& each) { return is_first_cable(each) && place-- == 0; });
    const auto end = std::find_if(
        first, hops.end(), [&](const Hop& each) { return each.far_switch != first->far_switch; });
    return first[quotients_[hop_up_by_cables + 1] % (end - first)];
  }

 private:
  int hops_;
  // Quotients of the port's number before each hop, and after the last one. A hop's switch follows
  // from the quotient before it, and its cable from the one after it.
  std::vector<int>& quotients_;
};

}  // namespace

FabricPaths::FabricPaths(const SiteGraph& graph, const std::vector<bool>& failed,
                         const std::vector<std::vector<SiteId>>& nodes)
    : links_up_(boost::num_vertices(graph)),
      links_down_(boost::num_vertices(graph)),
      port_number_(boost::num_vertices(graph)),
      tree_of_port_(boost::num_vertices(graph)) {
  std::vector<int> number(boost::num_vertices(graph), -1);  // of a switch; -1: a site of a node
  int switches = 0;
  for (SiteId site = 0; site < number.size(); ++site) {
    if (graph[site].node < 0) number[site] = switches++;
  }
  links_on_.resize(switches);
  links_back_.resize(switches);
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const SiteId from = boost::source(*edge, graph), to = boost::target(*edge, graph);
    const int link = graph[*edge].link;
    if (link >= 0 && failed[link]) continue;
    if (number[from] >= 0 && number[to] >= 0) {
      links_on_[number[from]].push_back({link, number[to]});
      links_back_[number[to]].push_back({link, number[from]});
    } else if (number[to] >= 0) {
      links_up_[from].push_back({link, number[to]});
    } else if (number[from] >= 0) {
      links_down_[to].push_back({link, number[from]});
    }
  }
  for (auto* all : {&links_up_, &links_down_, &links_on_}) {
    for (std::vector<Hop>& hops : *all) std::ranges::stable_sort(hops, {}, &Hop::far_switch);
  }
  number_ports(nodes);
}

// Numbers the ports leaf by leaf, and the leaves below one spine one after the other. A leaf is the
// first switch of a port, a spine a switch above leaves. Both come in the order of their first
// ports.
void FabricPaths::number_ports(const std::vector<std::vector<SiteId>>& nodes) {
  constexpr int kNone = std::numeric_limits<int>::max();
  const auto leaf_of = [&](SiteId port) { return links_down_[port].front().far_switch; };
  std::vector<SiteId> ports;
  std::vector<int> first_port(links_on_.size(), kNone);  // by leaf; kNone: it is no leaf
  for (const std::vector<SiteId>& sites : nodes) {
    for (const SiteId site : sites) {
      if (links_down_[site].empty()) continue;
      int& first = first_port[leaf_of(site)];
      first = std::min(first, static_cast<int>(ports.size()));
      ports.push_back(site);
    }
  }
  std::vector<std::pair<int, int>> uplinks;  // from a leaf to a spine
  for (int leaf = 0; leaf < static_cast<int>(links_on_.size()); ++leaf) {
    for (const Hop& hop : links_on_[leaf]) {
      if (first_port[leaf] != kNone && first_port[hop.far_switch] == kNone)
        uplinks.emplace_back(leaf, hop.far_switch);
    }
  }
  // By spine: the first port on all leaves below it. By leaf: the first one below its spines.
  std::vector<int> first_below(links_on_.size(), kNone), first_near(links_on_.size(), kNone);
  for (const auto& [leaf, spine] : uplinks)
    first_below[spine] = std::min(first_below[spine], first_port[leaf]);
  for (const auto& [leaf, spine] : uplinks)
    first_near[leaf] = std::min(first_near[leaf], first_below[spine]);
  std::ranges::stable_sort(ports, {}, [&](SiteId port) {
    return std::pair(first_near[leaf_of(port)], first_port[leaf_of(port)]);
  });
  for (std::size_t i = 0; i < ports.size(); ++i) port_number_[ports[i]] = static_cast<int>(i);
}

// Returns null if no link leads to the port.
const FabricPaths::Tree* FabricPaths::tree_to(SiteId port) const {
  const Tree*& known = tree_of_port_[port];
  if (known != nullptr || links_down_[port].empty()) return known;
  std::vector<int> roots;
  for (const Hop& hop : links_down_[port]) {
    if (roots.empty() || roots.back() != hop.far_switch) roots.push_back(hop.far_switch);
  }
  const auto [tree, is_new] = trees_.try_emplace(std::move(roots));
  if (is_new) tree->second = grow(tree->first);
  return known = &tree->second;
}

FabricPaths::Tree FabricPaths::grow(const std::vector<int>& roots) const {
  Tree tree{std::vector<int>(links_on_.size(), -1), std::vector<Hop>(links_on_.size())};
  for (const int root : roots) tree.hops[root] = 0;
  std::vector<int> queue = roots;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const int near = queue[i];
    for (const auto& [link, far] : links_back_[near]) {
      if (tree.hops[far] < 0) {
        tree.hops[far] = tree.hops[near] + 1;
        tree.next[far] = {link, near};
        queue.push_back(far);
      } else if (tree.hops[far] == tree.hops[near] + 1) {
        tree.next[far].link = kSeveral;
      }
    }
  }
  return tree;
}

int FabricPaths::hops(SiteId out, SiteId in) const {
  const Tree* tree = tree_to(in);
  int fewest = -1;
  for (const Hop& hop : links_up_[out]) {
    const int hops = tree != nullptr ? tree->hops[hop.far_switch] : -1;
    if (hops >= 0 && (fewest < 0 || hops < fewest)) fewest = hops;
  }
  return fewest;
}

void FabricPaths::add_links(SiteId out, SiteId in, std::vector<LinkId>* links) const {
  const Tree& tree = *tree_to(in);
  int left = hops(out, in);  // hops between switches that are still to come
  EqualWays ways(port_number_[in], left + 2, &quotients_);
  const auto is_nearest = [&](const Hop& hop) { return tree.hops[hop.far_switch] == left; };
  const Hop* hop = &ways.pick(links_up_[out], is_nearest);
  links->push_back(LinkId{hop->link});
  while (left-- > 0) {
    const int at = hop->far_switch;
    const bool has_choice = tree.next[at].link == kSeveral;
    hop = has_choice ? &ways.pick(links_on_[at], is_nearest) : &ways.pass(tree.next[at]);
    links->push_back(LinkId{hop->link});
  }
  const auto is_above_port = [&](const Hop& down) { return down.far_switch == hop->far_switch; };
  links->push_back(LinkId{ways.pick(links_down_[in], is_above_port).link});
}

std::vector<int> FabricPaths::components() const {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> backwards(links_back_.size());
  for (std::size_t at = 0; at < links_back_.size(); ++at) {
    for (const Hop& hop : links_back_[at]) boost::add_edge(at, hop.far_switch, backwards);
  }
  std::vector<int> component(links_back_.size());
  boost::strong_components(backwards, component.data());
  return component;
}

}  // namespace tandem
