// Lays out a Program's traffic for a playback. Each different set of flows, and each different
// route, is stored once; operations refer to them by number.
#include "sim/patterns.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// A link's load by one operation's flows.
struct LinkLoad {
  double seconds = 0;  // per byte of the operation
  double largest_share = 0;
  int flows = 0;

  void add(double flow_seconds, double share) {
    seconds += flow_seconds;
    largest_share = std::max(largest_share, share);
    ++flows;
  }
};

std::map<LinkId, LinkLoad> link_loads(const Traffic& traffic,
                                      std::span<const double> link_bytes_per_s) {
  std::map<LinkId, LinkLoad> loads;
  for (const Flow& flow : traffic.flows) {
    for (const LinkId link : flow.links) {
      const double seconds = flow.share * flow.multiplicity / link_bytes_per_s[index(link)];
      loads[link].add(seconds, flow.share);
    }
  }
  return loads;
}

bool is_about(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(a, b); }

}  // namespace

Patterns::Patterns(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
                   std::span<const double> link_bytes_per_s)
    : first_pattern_(folding.comm_classes.size() * kCommKinds, kNoLinks) {
  network_.bytes_per_s.assign(link_bytes_per_s.begin(), link_bytes_per_s.end());
  std::vector<std::vector<std::vector<CommUse>>> uses;  // by body and slot
  for (const Body& body : program.bodies) uses.push_back(comm_uses(body));
  for (std::size_t c = 0; c < folding.comm_classes.size(); ++c) {
    const ClassMember& member = folding.comm_classes[c].members.front();  // all issue equal ops
    for (const CommUse& use : uses[folding.folded_ranks[member.folded_rank].body][member.slot]) {
      std::int32_t& first = first_pattern_[c * kCommKinds + static_cast<std::size_t>(use.kind)];
      if (first < 0) first = static_cast<std::int32_t>(patterns_.size());
      patterns_.push_back(pattern_of(traffic_of(static_cast<std::int32_t>(c), use)));
      ++patterns_[first].ways;
    }
  }
  mark_private();
}

std::int32_t Patterns::number_of(std::int32_t comm_class, const Op& op) const {
  if (first_pattern_.empty()) return kNoLinks;
  std::int32_t found =
      first_pattern_[comm_class * kCommKinds + static_cast<int>(comm_kind(op.kind))];
  if (found == kNoLinks) return kNoLinks;
  while (patterns_[found].way != op.way) ++found;
  return found;
}

Pattern Patterns::pattern_of(const Traffic& traffic) {
  std::vector<std::tuple<std::int32_t, double, int>> key = {{0, traffic.seconds_per_byte, 0}};
  for (const Flow& flow : traffic.flows)
    key.emplace_back(route_of(flow), flow.share, flow.multiplicity);
  const auto [at, is_new] =
      flow_set_numbers_.try_emplace(std::move(key), static_cast<std::int32_t>(flow_sets_.size()));
  if (is_new) flow_sets_.push_back(flow_set_of(traffic));
  return {.flow_set = at->second, .latency_ns = traffic.latency_ns, .way = traffic.way};
}

// A set is even if rates in proportion to the flows' shares, with which all end together, are
// max-min fair: each flow crosses a saturated link on which no flow is faster (Bertsekas and
// Gallager 1992, "Data Networks", 6.5.2). An all-to-all behind one switch is an example. Flows that
// share no link are each limited by their own links. All flows must also load their slowest links
// alike: then they slow down together when several such operations run at once.
FlowSet Patterns::flow_set_of(const Traffic& traffic) {
  FlowSet set;
  set.seconds_per_byte = traffic.seconds_per_byte;
  std::map<LinkId, LinkLoad> loads = link_loads(traffic, network_.bytes_per_s);
  const bool flows_share_links =
      std::ranges::any_of(loads, [](const auto& load) { return load.second.flows > 1; });
  for (const auto& [link, load] : loads) set.links.push_back(index(link));
  std::vector<double> slowest_link_s;  // by flow: seconds per byte on its slowest link
  bool end_together = true;
  for (const Flow& flow : traffic.flows) {
    double seconds = 0;
    bool is_bound = !flows_share_links;  // crosses a saturated link on which no flow is faster
    for (const LinkId link : flow.links) {
      seconds = std::max(seconds, loads[link].seconds);
      const bool is_saturated = is_about(loads[link].seconds, set.seconds_per_byte);
      const bool none_is_faster = flow.share == loads[link].largest_share;
      is_bound |= is_saturated && none_is_faster;
    }
    slowest_link_s.push_back(seconds);
    const double alone_s = std::max(limited_s(flow), seconds);
    const bool ends_last = is_about(alone_s, set.seconds_per_byte);
    const bool loads_alike = is_about(seconds, slowest_link_s.front());
    end_together &= is_bound && ends_last && loads_alike;
    set.flows.push_back({route_of(flow), flow.share, alone_s, flow.multiplicity});
  }
  set.is_even = end_together;
  set.has_closed_form = set.is_even || !flows_share_links;
  if (set.is_even && set.seconds_per_byte > 0)
    set.load = slowest_link_s.front() / set.seconds_per_byte;
  return set;
}

std::int32_t Patterns::route_of(const Flow& flow) {
  const auto [at, is_new] =
      route_numbers_.try_emplace(std::pair(flow.links, flow.limit_bytes_per_s),
                                 static_cast<std::int32_t>(network_.routes.size()));
  if (!is_new) return at->second;
  std::vector<std::int32_t>& route = network_.routes.emplace_back();
  for (const LinkId link : flow.links) route.push_back(index(link));
  network_.route_limits.push_back(flow.limit_bytes_per_s);
  return at->second;
}

// Marks the patterns whose links are used by one communicator class only.
void Patterns::mark_private() {
  constexpr std::int32_t kNobody = -1, kMany = -2;
  std::vector<std::int32_t> user(network_.bytes_per_s.size(), kNobody);
  for (std::size_t i = 0; i < first_pattern_.size(); ++i) {
    if (first_pattern_[i] < 0) continue;
    const auto comm_class = static_cast<std::int32_t>(i / kCommKinds);
    const auto first = patterns_.begin() + first_pattern_[i];
    for (auto way = first; way != first + first->ways; ++way) {
      for (const std::int32_t link : flows_of(*way).links) {
        const bool has_other_user = user[link] != kNobody && user[link] != comm_class;
        user[link] = has_other_user ? kMany : comm_class;
      }
    }
  }
  for (Pattern& pattern : patterns_)
    pattern.is_private = std::ranges::none_of(
        flows_of(pattern).links, [&](std::int32_t link) { return user[link] == kMany; });
}

}  // namespace tandem
