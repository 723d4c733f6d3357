// Lanes of a body as queues: which ops stand on each lane, and each op's place in its queue.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/program.h"

namespace tandem {

struct LaneQueues {
  std::vector<std::vector<std::uint32_t>> lanes;  // the ops of each lane, in order
  std::vector<std::uint32_t> place;               // op -> its place on its lane

  explicit LaneQueues(const Body& body) : lanes(body.lanes.size()), place(body.ops.size()) {
    for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
      std::vector<std::uint32_t>& lane = lanes[body.ops[i].lane];
      place[i] = static_cast<std::uint32_t>(lane.size());
      lane.push_back(i);
    }
  }
};

inline std::vector<LaneQueues> lane_queues(const Program& program) {
  std::vector<LaneQueues> queues;
  queues.reserve(program.bodies.size());
  for (const Body& body : program.bodies) queues.emplace_back(body);
  return queues;
}

}  // namespace tandem
