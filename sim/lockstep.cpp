// Finds the classes by colour refinement (Weisfeiler and Leman 1968), also known as the 1-WL test
// of graph isomorphism, on the graph of flows and the links that they cross:
// 1. ColourRefinement: each flow and each link begins with a colour of its own properties, such as
//    a link's bandwidth. In each round a flow's colour is hashed with the colours of its links, and
//    a link's with the colours of its flows, until the number of colours stays the same.
// 2. If communicators of one class have flows of different colours, the class is split, ranks are
//    folded anew (schedule/program/rank_folding.h), and step 1 is repeated.
// 3. SmallerNetwork: each class of links becomes one link, each class of flows one or few flows.
#include "sim/lockstep.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/random.h"

namespace tandem {
namespace {

// Colours are hashes of 64 bits: equal colours are taken for equal things.
template <class Integer>
std::uint64_t mixed(std::uint64_t state, Integer value) {
  return scatter(state ^ scatter(static_cast<std::uint64_t>(value)));
}
std::uint64_t mixed(std::uint64_t state, double value) {
  return mixed(state, std::bit_cast<std::uint64_t>(value));
}

// An operation of a communicator. Its flow groups end where the next operation's begin.
struct Operation {
  std::int32_t communicator = 0;
  CommUse use;
  Nanoseconds latency_ns = 0;
  std::size_t first_flow = 0;
};

// Equal flows over one route. Its list of links ends where the next group's begins.
struct FlowGroup {
  double share = 0;
  int multiplicity = 0;
  double limit_bytes_per_s = 0;  // of each flow; 0: none
  std::size_t first_link = 0;
  std::uint64_t colour = 0;
};

struct LinkColour {
  std::uint64_t own = 0;     // of the link's own properties: bandwidth and the two below
  std::uint64_t colour = 0;  // of these and the flows that it carries
  // The most links before and behind it on any route; -1: no flow crosses it. They tell apart the
  // links of one route that are alike otherwise: up from one GPU and down to the next.
  std::int32_t links_before = -1, links_behind = -1;

  bool is_crossed() const { return links_before >= 0; }
};

// Colours the flows of all communicators' operations and the links that they cross.
class ColourRefinement {
 public:
  ColourRefinement(const Program& program, const Cluster& cluster, const Placement& placement)
      : program_(program), cluster_(cluster), folding_(fold(program)), links_(cluster.links()) {
    collect_operations(placement);
    colour_links_by_themselves();
  }

  const Cluster& cluster() const { return cluster_; }
  const RankFolding& folding() const { return folding_; }
  std::span<const Operation> operations() const {
    return {operations_.data(), operations_.size() - 1};
  }
  std::size_t end_of_flows(std::size_t operation) const {
    return operations_[operation + 1].first_flow;
  }
  std::span<const FlowGroup> flows() const { return {flows_.data(), flows_.size() - 1}; }
  const std::vector<LinkColour>& links() const { return links_; }
  std::span<const std::int32_t> route(std::size_t flow) const {
    return {route_links_.data() + flows_[flow].first_link,
            route_links_.data() + flows_[flow + 1].first_link};
  }

  // Refines until the partition is equitable. Returns false if a split leaves half of the ranks or
  // more to be played; a first folding that is that large already is kept.
  bool refine() {
    for (;;) {
      colour_flows();
      const std::size_t folded_ranks = folding_.folded_ranks.size();
      if (!split_comm_classes()) return true;
      const bool has_grown = folding_.folded_ranks.size() > folded_ranks;
      const bool is_half = 2 * folding_.folded_ranks.size() >= program_.ranks.size();
      if (has_grown && is_half) return false;
    }
  }

 private:
  void collect_operations(const Placement& placement) {
    std::vector<std::vector<std::vector<CommUse>>> uses;
    for (const Body& body : program_.bodies) uses.push_back(comm_uses(body));
    for (const CommunicatorClass& comm_class : folding_.comm_classes) {
      const ClassMember& class_member = comm_class.members.front();
      for (const std::int32_t c : comm_class.communicators) {
        for (const CommUse& use :
             uses[folding_.folded_ranks[class_member.folded_rank].body][class_member.slot])
          add_operation(c, use, traffic_of(program_, c, use, cluster_, placement));
      }
    }
    operations_.push_back({.first_flow = flows_.size()});
    flows_.push_back({.first_link = route_links_.size()});
  }

  void colour_links_by_themselves() {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      LinkColour& link = links_[i];
      link.own = mixed(mixed(mixed(0, link.links_before), link.links_behind),
                       cluster_.link(LinkId{static_cast<std::int32_t>(i)}).bytes_per_s);
    }
  }

  void add_operation(std::int32_t communicator, const CommUse& use, const Traffic& traffic) {
    operations_.push_back({communicator, use, traffic.latency_ns, flows_.size()});
    for (const Flow& flow : traffic.flows) {
      if (flow.links.empty()) continue;
      flows_.push_back(
          {flow.share, flow.multiplicity, flow.limit_bytes_per_s, route_links_.size()});
      const auto length = static_cast<std::int32_t>(flow.links.size());
      for (std::int32_t i = 0; i < length; ++i) {
        route_links_.push_back(index(flow.links[i]));
        LinkColour& link = links_[route_links_.back()];
        link.links_before = std::max(link.links_before, i);
        link.links_behind = std::max(link.links_behind, length - 1 - i);
      }
    }
  }

  // Mixes each flow's properties and its operation's communicator class into its colour, then
  // refines until the number of colours stays the same.
  void colour_flows() {
    const std::vector<std::int32_t> class_of = comm_class_by_communicator();
    for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
      const auto& [communicator, use, latency_ns, first] = operations_[i];
      const std::uint64_t colour =
          mixed(mixed(mixed(0, class_of[communicator]), static_cast<int>(use.kind)), use.way);
      for (std::size_t flow = first; flow < end_of_flows(i); ++flow) {
        FlowGroup& group = flows_[flow];
        group.colour =
            mixed(mixed(mixed(mixed(colour ^ group.colour, group.share), group.multiplicity),
                        group.limit_bytes_per_s),
                  static_cast<std::int64_t>(route(flow).size()));
      }
    }
    std::size_t colours_before = 0;
    for (std::size_t colours = 1; colours != colours_before;) {
      colours_before = colours;
      colours = refine_once();
    }
  }

  std::vector<std::int32_t> comm_class_by_communicator() const {
    std::vector<std::int32_t> class_of(program_.communicators.size());
    for (std::size_t c = 0; c < folding_.comm_classes.size(); ++c) {
      for (const std::int32_t communicator : folding_.comm_classes[c].communicators)
        class_of[communicator] = static_cast<std::int32_t>(c);
    }
    return class_of;
  }

  // Does one round of refinement. Returns the number of colours of flows.
  std::size_t refine_once() {
    for (LinkColour& link : links_) link.colour = link.own;
    for (std::size_t flow = 0; flow + 1 < flows_.size(); ++flow) {
      // A sum of hashes does not depend on the order of the flows.
      const std::uint64_t carried = scatter(flows_[flow].colour) * flows_[flow].multiplicity;
      for (const std::int32_t link : route(flow)) links_[link].colour += carried;
    }
    std::unordered_set<std::uint64_t> colours;
    for (std::size_t flow = 0; flow + 1 < flows_.size(); ++flow) {
      std::uint64_t colour = flows_[flow].colour;
      for (const std::int32_t link : route(flow)) colour = mixed(colour, links_[link].colour);
      flows_[flow].colour = colour;
      colours.insert(colour);
    }
    return colours.size();
  }

  // Splits the communicator classes whose members have flows of different colours. Returns false
  // if there are none.
  bool split_comm_classes() {
    std::vector<std::uint64_t> colour_of(program_.communicators.size());
    for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
      const auto& [communicator, use, latency_ns, first] = operations_[i];
      std::uint64_t flows = 0;
      for (std::size_t flow = first; flow < end_of_flows(i); ++flow)
        flows += scatter(flows_[flow].colour);
      colour_of[communicator] = mixed(mixed(colour_of[communicator], latency_ns), flows);
    }
    const bool alike =
        std::ranges::all_of(folding_.comm_classes, [&](const CommunicatorClass& comm_class) {
          return std::ranges::all_of(comm_class.communicators, [&](std::int32_t c) {
            return colour_of[c] == colour_of[comm_class.communicators.front()];
          });
        });
    if (alike) return false;
    std::unordered_map<std::uint64_t, std::int32_t> numbers;
    std::vector<std::int32_t> colours;
    for (const std::uint64_t colour : colour_of)
      colours.push_back(
          numbers.try_emplace(colour, static_cast<std::int32_t>(numbers.size())).first->second);
    folding_ = fold(program_, colours);
    return true;
  }

  const Program& program_;
  const Cluster& cluster_;
  RankFolding folding_;
  // In the order of the first folding's communicator classes. A last entry, which is no operation,
  // holds the end of the flows.
  std::vector<Operation> operations_;
  std::vector<FlowGroup> flows_;           // likewise, with the end of the links
  std::vector<std::int32_t> route_links_;  // links of all flow groups, one list after another
  std::vector<LinkColour> links_;
};

// Builds the network that has one link for each class of links (LockStep in lockstep.h).
class SmallerNetwork {
 public:
  explicit SmallerNetwork(const ColourRefinement& refined) : refined_(refined) {
    collect_link_classes();
    collect_flow_classes();
    find_units();
  }

  // Gives the link of a class of n links, with unit u, n / u times the bandwidth of each.
  LockStep build() const {
    LockStep built{refined_.folding(), {}, {}};
    for (std::size_t l = 0; l < links_.size(); ++l)
      built.link_bytes_per_s.push_back(links_[l].bytes_per_s *
                                       static_cast<double>(links_[l].count) /
                                       static_cast<double>(unit_of(static_cast<std::int32_t>(l))));
    const std::unordered_map<std::int32_t, std::int32_t> comm_class = comm_class_by_first();
    const std::span<const Operation> operations = refined_.operations();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      const auto represented = comm_class.find(operation.communicator);
      if (represented == comm_class.end()) continue;
      built.traffic[{represented->second, operation.use}] =
          traffic_of(operation, refined_.end_of_flows(i), built.link_bytes_per_s);
    }
    return built;
  }

 private:
  struct LinkClass {
    double bytes_per_s = 0;  // of each link
    std::int64_t count = 0;
    // The parent in a union-find forest, which joins the classes of links that share flows.
    std::int32_t parent = 0;
  };
  struct FlowClass {
    std::size_t first_group = 0;
    std::int64_t multiplicity = 0;  // of all groups of the class
  };

  void collect_link_classes() {
    std::unordered_map<std::uint64_t, std::int32_t> numbers;
    class_of_link_.resize(refined_.links().size(), -1);
    for (std::size_t i = 0; i < class_of_link_.size(); ++i) {
      const LinkColour& link = refined_.links()[i];
      if (!link.is_crossed()) continue;
      const auto [at, is_new] =
          numbers.try_emplace(link.colour, static_cast<std::int32_t>(links_.size()));
      if (is_new)
        links_.push_back({refined_.cluster().link(LinkId{static_cast<std::int32_t>(i)}).bytes_per_s,
                          0, at->second});
      class_of_link_[i] = at->second;
      ++links_[at->second].count;
    }
  }

  void collect_flow_classes() {
    for (std::size_t flow = 0; flow < refined_.flows().size(); ++flow) {
      const FlowGroup& group = refined_.flows()[flow];
      const auto [at, is_new] = flow_classes_.try_emplace(group.colour, FlowClass{flow, 0});
      at->second.multiplicity += group.multiplicity;
    }
  }

  std::int32_t root(std::int32_t link) const {
    while (links_[link].parent != link) link = links_[link].parent;
    return link;
  }

  // A class of f flows has multiplicity f/u on all links of its route. So classes of links that
  // share flows, directly or through others, have one unit u: the greatest common divisor of the
  // numbers f of these flows, which makes each f/u a whole number.
  void find_units() {
    for (const auto& [colour, flows] : flow_classes_) {
      const std::span<const std::int32_t> route = refined_.route(flows.first_group);
      const std::int32_t first = root(class_of_link_[route.front()]);
      for (const std::int32_t link : route) links_[root(class_of_link_[link])].parent = first;
    }
    units_.resize(links_.size());
    for (const auto& [colour, flows] : flow_classes_) {
      const std::int32_t link = refined_.route(flows.first_group).front();
      std::int64_t& unit = units_[root(class_of_link_[link])];
      unit = std::gcd(unit, flows.multiplicity);
    }
  }
  std::int64_t unit_of(std::int32_t link) const { return units_[root(link)]; }

  // Returns each class of communicators by its first communicator, which represents it.
  std::unordered_map<std::int32_t, std::int32_t> comm_class_by_first() const {
    std::unordered_map<std::int32_t, std::int32_t> comm_classes;
    for (const CommunicatorClass& comm_class : refined_.folding().comm_classes)
      comm_classes.emplace(comm_class.communicators.front(),
                           static_cast<std::int32_t>(comm_classes.size()));
    return comm_classes;
  }

  // Returns the operation's traffic on the smaller network. Its flow groups end before `end`. The
  // first group of a class stands for those of all communicators of the class.
  Traffic traffic_of(const Operation& operation, std::size_t end,
                     std::span<const double> link_bytes_per_s) const {
    Traffic traffic;
    traffic.latency_ns = operation.latency_ns;
    traffic.way = operation.use.way;
    std::unordered_set<std::uint64_t> represented_colours;
    std::map<std::int32_t, double> seconds_per_byte;  // by link
    for (std::size_t i = operation.first_flow; i < end; ++i) {
      const FlowGroup& group = refined_.flows()[i];
      if (!represented_colours.insert(group.colour).second) continue;
      Flow& flow = traffic.flows.emplace_back();
      flow.share = group.share;
      flow.limit_bytes_per_s = group.limit_bytes_per_s;
      traffic.seconds_per_byte = std::max(traffic.seconds_per_byte, limited_s(flow));
      for (const std::int32_t link : refined_.route(i))
        flow.links.push_back(LinkId{class_of_link_[link]});
      flow.multiplicity = static_cast<int>(flow_classes_.at(group.colour).multiplicity /
                                           unit_of(index(flow.links.front())));
      for (const LinkId link : flow.links) {
        double& link_s = seconds_per_byte[index(link)];
        link_s += flow.share * flow.multiplicity / link_bytes_per_s[index(link)];
        traffic.seconds_per_byte = std::max(traffic.seconds_per_byte, link_s);
      }
    }
    return traffic;
  }

  const ColourRefinement& refined_;
  std::vector<std::int32_t> class_of_link_;  // -1: no flow crosses the link
  std::vector<LinkClass> links_;
  std::unordered_map<std::uint64_t, FlowClass> flow_classes_;  // by colour
  std::vector<std::int64_t> units_;  // by the root of a tree of link classes
};

}  // namespace

std::optional<LockStep> lock_step(const Program& program, const Cluster& cluster,
                                  const Placement& placement) {
  ColourRefinement refinement(program, cluster, placement);
  if (!refinement.refine()) return std::nullopt;
  return SmallerNetwork(refinement).build();
}

}  // namespace tandem
