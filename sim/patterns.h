// Patterns: the flows that each operation of a Program puts on links, stored so that a Playback
// finds them by number. A kind's operations may have several ways (Traffic::way: an algorithm and
// protocol), each with its own pattern.
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

// Returns the traffic of an operation of a communicator class.
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
  bool is_even = false;  // all flows end together, however many such operations run at once
  double load = 1;       // where it is even: the part of its links' bandwidth that it takes alone
  // The operation takes seconds_per_byte when alone: it is even, or no two flows share a link.
  bool has_closed_form = false;
};

// The use of the network by a communicator class's operations of one kind and way.
struct Pattern {
  std::int32_t flow_set = 0;
  Nanoseconds latency_ns = 0;
  int way = 0;
  std::int32_t ways = 0;    // in the first pattern of a kind: the number of its patterns; else 0
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
  // By links and limit.
  std::map<std::pair<std::vector<LinkId>, double>, std::int32_t> route_numbers_;
  // By (0, seconds_per_byte, 0), then (route, share, multiplicity) of each flow.
  std::map<std::vector<std::tuple<std::int32_t, double, int>>, std::int32_t> flow_set_numbers_;
};

}  // namespace tandem
