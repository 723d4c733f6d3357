// Patterns: what the operations of a Program put on which links, laid out for a playback.
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

// What a communicator class's operations put on the links.
using TrafficOf = std::function<Traffic(std::int32_t comm_class, const CommUse& use)>;

// An operation's flows, per byte of it. Operations with equal flows have one FlowSet.
struct FlowSet {
  struct Flow {
    std::int32_t route = 0;
    double share = 0;    // bytes
    double alone_s = 0;  // seconds, alone
    int multiplicity = 1;
  };
  std::vector<Flow> flows;
  std::vector<std::int32_t> links;  // each once
  double seconds_per_byte = 0;      // alone
  bool meets_itself = false;        // two of its flows have a link in common
  bool is_even = false;             // all flows end together, as many such operations as there are
  double load = 1;                  // of the links, where it is even: as ProcessorSharing
};

// What stands for an operation of a communicator class.
struct Pattern {
  std::int32_t flow_set = 0;
  Nanoseconds latency_ns = 0;
  int way = 0;
  std::int32_t ways = 0;    // of the communicator class's kind: this pattern and those after it
  bool is_private = false;  // no other communicator class uses any of its links
};

class Patterns {
 public:
  Patterns() = default;  // of a Program whose operations use no links
  Patterns(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
           std::span<const double> link_bytes_per_s);

  // The links and routes that flows may take.
  const FlowNetwork& network() const { return network_; }
  const std::vector<FlowSet>& flow_sets() const { return flow_sets_; }

  static constexpr std::int32_t kNoLinks = -1;
  // By number; kNoLinks: the operation takes its duration when alone.
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
  std::vector<std::int32_t> first_pattern_;  // communicator class x kind: that of its first way
  // Of those that are there: by links and limit; by seconds, routes, shares and multiplicities.
  std::map<std::pair<std::vector<LinkId>, double>, std::int32_t> route_numbers_;
  std::map<std::vector<std::tuple<std::int32_t, double, int>>, std::int32_t> flow_set_numbers_;
};

}  // namespace tandem
