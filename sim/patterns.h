// Patterns: which flows each operation of a Program puts on which links, laid out for a playback.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/lowering/price.h"
#include "schedule/program/rank_folding.h"
#include "sim/flows.h"
#include "topology/traffic.h"

namespace tandem {

// Returns what an operation of a communicator class puts on the links.
using TrafficOf = std::function<Traffic(std::int32_t comm_class, const CommUse& use)>;

// The flows of an operation. Operations with equal flows share one FlowSet.
struct FlowSet {
  struct Flow {
    std::int32_t route = 0;
    double share = 0;    // bytes, per byte of the operation
    double alone_s = 0;  // seconds per byte of the operation, when the operation is alone
    int multiplicity = 1;
  };
  std::vector<Flow> flows;
  std::vector<std::int32_t> links;  // each link once
  double seconds_per_byte = 0;      // of the operation, when alone
  // Alone on its links, it takes seconds_per_byte: no two flows share a link, or it is even.
  bool has_closed_form = false;
  bool is_even = false;  // all flows end together, however many such operations run at once
  double load = 1;       // where it is even: the part of its links' bandwidth that it takes alone
};

// How a communicator class's operations of one kind and way use the network.
struct Pattern {
  std::int32_t flow_set = 0;
  Nanoseconds latency_ns = 0;
  int way = 0;
  std::int32_t ways = 0;    // of this kind, from this pattern on; 0 but in the first of a kind
  bool is_private = false;  // no other communicator class uses any of its links
};

class Patterns {
 public:
  Patterns() = default;  // for a Program whose operations use no links
  Patterns(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
           std::span<const double> link_bytes_per_s);

  // The links and routes that flows may take.
  const FlowNetwork& network() const { return network_; }
  const std::vector<FlowSet>& flow_sets() const { return flow_sets_; }

  static constexpr std::int32_t kNoLinks = -1;
  // Returns the number of the op's pattern. kNoLinks: the op takes its duration, as if alone.
  std::int32_t number_of(std::int32_t comm_class, const Op& op) const;
  const Pattern& operator[](std::int32_t number) const { return patterns_[number]; }
  const FlowSet& flows_of(const Pattern& pattern) const { return flow_sets_[pattern.flow_set]; }

 private:
  Pattern pattern_of(const Traffic& traffic);
  FlowSet flow_set_of(const Traffic& traffic);
  std::int32_t route_of(const Flow& flow);
  void mark_private();

  FlowNetwork network_;
  std::vector<FlowSet> flow_sets_;
  std::vector<Pattern> patterns_;
  // By communicator class x kind: the pattern of its first way.
  std::vector<std::int32_t> first_pattern_;
  // Routes by links and limit; flow sets by seconds, routes, shares and multiplicities.
  std::map<std::pair<std::vector<LinkId>, double>, std::int32_t> route_numbers_;
  std::map<std::vector<std::tuple<std::int32_t, double, int>>, std::int32_t> flow_set_numbers_;
};

}  // namespace tandem
