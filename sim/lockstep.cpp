// Colour refinement (Weisfeiler and Leman 1968). Flows and links begin with colours of what they
// are by themselves. Each round mixes the colours of its links into a flow's colour, and those of
// the flows on it into a link's, until no class of equal colour splits any more. If flows of the
// communicators of one class then differ in colour, that class is split, ranks are folded anew
// (schedule/program/rank_folding.h), and all is refined again. In the end each class of links
// becomes one link of a smaller network, and its flows become fewer (Classes).
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
std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  return scatter(state ^ scatter(value));
}
std::uint64_t mixed(std::uint64_t state, std::int64_t value) {
  return mixed(state, static_cast<std::uint64_t>(value));
}
std::uint64_t mixed(std::uint64_t state, int value) {
  return mixed(state, static_cast<std::uint64_t>(value));
}
std::uint64_t mixed(std::uint64_t state, double value) {
  return mixed(state, std::bit_cast<std::uint64_t>(value));
}

// An operation of a communicator. Its flows end where the next operation's begin.
struct Operation {
  std::int32_t communicator = 0;
  CommUse use;
  Nanoseconds latency_ns = 0;
  std::size_t first_flow = 0;
};

// Several equal flows over one list of links, which ends where the next group's begins.
struct FlowGroup {
  double share = 0;
  int multiplicity = 0;
  double limit_bytes_per_s = 0;  // of each flow; 0: none
  std::size_t first_link = 0;
  std::uint64_t colour = 0;
};

struct LinkColour {
  std::uint64_t own = 0;     // the link by itself: bandwidth, `before` and `behind`
  std::uint64_t colour = 0;  // with the flows that it carries
  // Most links before and behind it on any route; -1: no flow goes there.
  std::int32_t before = -1, behind = -1;
};

// The flows of all communicators' operations on the links, and their colours.
class Refinement {
 public:
  Refinement(const Program& program, const Cluster& cluster, const Placement& placement)
      : program_(program), cluster_(cluster), folding_(fold(program)), links_(cluster.links()) {
    collect(placement);
  }

  const Cluster& cluster() const { return cluster_; }
  const RankFolding& folding() const { return folding_; }
  std::span<const Operation> operations() const {
    return {operations_.data(), operations_.size() - 1};
  }
  std::span<const FlowGroup> flows() const { return {flows_.data(), flows_.size() - 1}; }
  const std::vector<LinkColour>& links() const { return links_; }
  std::span<const std::int32_t> way(std::size_t flow) const {
    return {ways_.data() + flows_[flow].first_link, ways_.data() + flows_[flow + 1].first_link};
  }

  // Refines until the partition is equitable. Returns false once half of the ranks or more would
  // have to be played.
  bool refine() {
    for (;;) {
      colour_flows();
      const std::size_t folded_ranks = folding_.folded_ranks.size();
      if (!split_comm_classes()) return true;
      if (folding_.folded_ranks.size() > folded_ranks &&
          2 * folding_.folded_ranks.size() >= program_.ranks.size())
        return false;
    }
  }

 private:
  void collect(const Placement& placement) {
    std::vector<std::vector<std::vector<CommUse>>> uses;
    for (const Body& body : program_.bodies) uses.push_back(comm_uses(body));
    for (const CommunicatorClass& comm_class : folding_.comm_classes) {
      const ClassMember& class_member = comm_class.members.front();
      for (const std::int32_t c : comm_class.communicators) {
        for (const CommUse& use :
             uses[folding_.folded_ranks[class_member.folded_rank].body][class_member.slot])
          add(c, use, traffic_of(program_, c, use, cluster_, placement));
      }
    }
    operations_.push_back({.first_flow = flows_.size()});
    flows_.push_back({.first_link = ways_.size()});
    for (std::size_t i = 0; i < links_.size(); ++i) {
      LinkColour& link = links_[i];
      link.own = mixed(mixed(mixed(0, link.before), link.behind),
                       cluster_.link(LinkId{static_cast<std::int32_t>(i)}).bytes_per_s);
    }
  }

  void add(std::int32_t communicator, const CommUse& use, const Traffic& traffic) {
    operations_.push_back({communicator, use, traffic.latency_ns, flows_.size()});
    for (const Flow& flow : traffic.flows) {
      if (flow.links.empty()) continue;
      flows_.push_back({flow.share, flow.multiplicity, flow.limit_bytes_per_s, ways_.size()});
      const auto length = static_cast<std::int32_t>(flow.links.size());
      for (std::int32_t i = 0; i < length; ++i) {
        ways_.push_back(index(flow.links[i]));
        LinkColour& link = links_[ways_.back()];
        link.before = std::max(link.before, i);
        link.behind = std::max(link.behind, length - 1 - i);
      }
    }
  }

  // Colours each flow by its operation's communicator class, then refines flows by their links and
  // links by their flows until the number of colours stays the same.
  void colour_flows() {
    std::vector<std::int32_t> class_of(program_.communicators.size());
    for (std::size_t c = 0; c < folding_.comm_classes.size(); ++c) {
      for (const std::int32_t communicator : folding_.comm_classes[c].communicators)
        class_of[communicator] = static_cast<std::int32_t>(c);
    }
    for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
      const auto& [communicator, use, latency_ns, first] = operations_[i];
      const std::uint64_t colour =
          mixed(mixed(mixed(0, class_of[communicator]), static_cast<int>(use.kind)), use.way);
      for (std::size_t flow = first; flow < operations_[i + 1].first_flow; ++flow) {
        FlowGroup& group = flows_[flow];
        group.colour =
            mixed(mixed(mixed(mixed(colour ^ group.colour, group.share), group.multiplicity),
                        group.limit_bytes_per_s),
                  static_cast<std::int64_t>(way(flow).size()));
      }
    }
    std::size_t colours = 0;
    for (std::size_t refined = 1; refined != colours;) {
      colours = refined;
      refined = refine_flows();
    }
  }

  // Does one round of refinement. Returns the number of colours of flows.
  std::size_t refine_flows() {
    for (LinkColour& link : links_) link.colour = link.own;
    for (std::size_t flow = 0; flow + 1 < flows_.size(); ++flow) {
      // The sum of hashes is the same whatever the flows' order.
      const std::uint64_t carried = scatter(flows_[flow].colour) * flows_[flow].multiplicity;
      for (const std::int32_t link : way(flow)) links_[link].colour += carried;
    }
    std::unordered_set<std::uint64_t> colours;
    for (std::size_t flow = 0; flow + 1 < flows_.size(); ++flow) {
      std::uint64_t colour = flows_[flow].colour;
      for (const std::int32_t link : way(flow)) colour = mixed(colour, links_[link].colour);
      flows_[flow].colour = colour;
      colours.insert(colour);
    }
    return colours.size();
  }

  // Splits classes of communicators whose flows differ in colour. Returns whether any did.
  bool split_comm_classes() {
    std::vector<std::uint64_t> colour_of(program_.communicators.size());
    for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
      const auto& [communicator, use, latency_ns, first] = operations_[i];
      std::uint64_t flows = 0;
      for (std::size_t flow = first; flow < operations_[i + 1].first_flow; ++flow)
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
  std::vector<Operation>
      operations_;                // in order of communicator classes at first; one more at the end
  std::vector<FlowGroup> flows_;  // one more at the end
  std::vector<std::int32_t> ways_;  // links of all flow groups, one list after another
  std::vector<LinkColour> links_;
};

// Builds the network that has one link for each class of links.
class Classes {
 public:
  explicit Classes(const Refinement& refined) : refined_(refined) {
    number_links();
    number_flows();
    find_units();
  }

  // Makes a class of n links, with unit u, one link of n / u times the bandwidth (lockstep.h).
  LockStep take() {
    LockStep made{refined_.folding(), {}, {}};
    for (std::size_t l = 0; l < links_.size(); ++l)
      made.link_bytes_per_s.push_back(links_[l].bytes_per_s * static_cast<double>(links_[l].count) /
                                      static_cast<double>(unit_of(static_cast<std::int32_t>(l))));
    std::vector<std::int32_t> class_of(class_of_communicators());
    const std::span<const Operation> operations = refined_.operations();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      const std::int32_t comm_class = class_of[operation.communicator];
      if (comm_class < 0) continue;  // the first communicator of its class stands for this one
      const std::size_t end =
          i + 1 < operations.size() ? operations[i + 1].first_flow : refined_.flows().size();
      made.traffic[{comm_class, operation.use}] = traffic_of(operation, end, made.link_bytes_per_s);
    }
    return made;
  }

 private:
  struct Link {
    double bytes_per_s = 0;
    std::int64_t count = 0;
    // Another class of links that it shares flows with: parent in a union-find tree.
    std::int32_t joined = 0;
  };
  struct FlowClass {
    std::size_t first = 0;  // flow group
    std::int64_t multiplicity = 0;
  };

  void number_links() {
    std::unordered_map<std::uint64_t, std::int32_t> numbers;
    link_of_.resize(refined_.links().size(), -1);
    for (std::size_t i = 0; i < link_of_.size(); ++i) {
      const LinkColour& link = refined_.links()[i];
      if (link.before < 0) continue;
      const auto [at, is_new] =
          numbers.try_emplace(link.colour, static_cast<std::int32_t>(links_.size()));
      if (is_new)
        links_.push_back({refined_.cluster().link(LinkId{static_cast<std::int32_t>(i)}).bytes_per_s,
                          0, at->second});
      link_of_[i] = at->second;
      ++links_[at->second].count;
    }
  }

  void number_flows() {
    for (std::size_t flow = 0; flow < refined_.flows().size(); ++flow) {
      const FlowGroup& group = refined_.flows()[flow];
      const auto [at, is_new] = flow_classes_.try_emplace(group.colour, FlowClass{flow, 0});
      at->second.multiplicity += group.multiplicity;
    }
  }

  std::int32_t root(std::int32_t link) const {
    while (links_[link].joined != link) link = links_[link].joined;
    return link;
  }

  // Finds the units: all classes of links that share flows, directly or not, have one unit, the
  // greatest common divisor of the numbers of their flows.
  void find_units() {
    for (const auto& [colour, flows] : flow_classes_) {
      const std::int32_t first = root(link_of_[refined_.way(flows.first).front()]);
      for (const std::int32_t link : refined_.way(flows.first))
        links_[root(link_of_[link])].joined = first;
    }
    units_.resize(links_.size());
    for (const auto& [colour, flows] : flow_classes_) {
      std::int64_t& unit = units_[root(link_of_[refined_.way(flows.first).front()])];
      unit = std::gcd(unit, flows.multiplicity);
    }
  }
  std::int64_t unit_of(std::int32_t link) const { return units_[root(link)]; }

  // Returns, by communicator, its class if it is the first one there, else -1.
  std::vector<std::int32_t> class_of_communicators() const {
    std::size_t communicators = 0;
    for (const CommunicatorClass& comm_class : refined_.folding().comm_classes)
      communicators += comm_class.communicators.size();
    std::vector<std::int32_t> comm_classes(communicators, -1);
    for (std::size_t c = 0; c < refined_.folding().comm_classes.size(); ++c)
      comm_classes[refined_.folding().comm_classes[c].communicators.front()] =
          static_cast<std::int32_t>(c);
    return comm_classes;
  }

  // Returns the operation's traffic on the smaller network. Its flow groups end before `end`. Of
  // several groups of one class the first stands for all.
  Traffic traffic_of(const Operation& operation, std::size_t end,
                     std::span<const double> link_bytes_per_s) const {
    Traffic traffic;
    traffic.latency_ns = operation.latency_ns;
    traffic.way = operation.use.way;
    std::unordered_set<std::uint64_t> seen;
    std::map<std::int32_t, double> seconds;
    for (std::size_t i = operation.first_flow; i < end; ++i) {
      const FlowGroup& group = refined_.flows()[i];
      if (!seen.insert(group.colour).second) continue;
      Flow& flow = traffic.flows.emplace_back();
      flow.share = group.share;
      flow.limit_bytes_per_s = group.limit_bytes_per_s;
      traffic.seconds_per_byte = std::max(traffic.seconds_per_byte, limited_s(flow));
      for (const std::int32_t link : refined_.way(i)) flow.links.push_back(LinkId{link_of_[link]});
      flow.multiplicity = static_cast<int>(flow_classes_.at(group.colour).multiplicity /
                                           unit_of(index(flow.links.front())));
      for (const LinkId link : flow.links) {
        double& all = seconds[index(link)];
        all += flow.share * flow.multiplicity / link_bytes_per_s[index(link)];
        traffic.seconds_per_byte = std::max(traffic.seconds_per_byte, all);
      }
    }
    return traffic;
  }

  const Refinement& refined_;
  std::vector<std::int32_t> link_of_;  // by link: its class; -1: no flow goes there
  std::vector<Link> links_;
  std::unordered_map<std::uint64_t, FlowClass> flow_classes_;  // by colour
  std::vector<std::int64_t> units_;                            // by root of the tree of links
};

}  // namespace

std::optional<LockStep> lock_step(const Program& program, const Cluster& cluster,
                                  const Placement& placement) {
  Refinement refinement(program, cluster, placement);
  if (!refinement.refine()) return std::nullopt;
  return Classes(refinement).take();
}

}  // namespace tandem
