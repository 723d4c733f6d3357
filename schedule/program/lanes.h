// The lanes of a body as queues of ops, and cursors that say how far a rank is on each lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

struct LaneQueues {
  std::vector<std::vector<std::uint32_t>> lanes;  // the ops of each lane, in order
  std::vector<std::uint32_t> place;               // by op: its index on its lane

  explicit LaneQueues(const Body& body) : lanes(body.lanes.size()), place(body.ops.size()) {
    std::vector<std::uint32_t> counts(lanes.size());
    for (const Op& op : body.ops) ++counts[op.lane];
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane].reserve(counts[lane]);
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

// Returns the ops of each slot of a body, in issue order.
inline std::vector<std::vector<std::uint32_t>> ops_by_slot(const Body& body) {
  std::vector<std::size_t> counts(body.slots.size());
  for (const Op& op : body.ops) {
    if (op.slot >= 0) ++counts[op.slot];
  }
  std::vector<std::vector<std::uint32_t>> slots(body.slots.size());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) slots[slot].reserve(counts[slot]);
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].slot >= 0) slots[body.ops[i].slot].push_back(i);
  }
  return slots;
}

// The progress of a rank: all that an executor keeps about its ops.
struct LaneCursors {
  std::vector<std::uint32_t> done;  // by lane: ops that have ended
  std::vector<std::uint8_t> busy;   // by lane: its next op has arrived or runs

  explicit LaneCursors(const Body& body) : done(body.lanes.size()), busy(body.lanes.size()) {}

  bool has_ended(const Body& body, const LaneQueues& queues, std::uint32_t op) const {
    return queues.place[op] < done[body.ops[op].lane];
  }

  // Calls start(op) for each lane's next op whose waits have ended, and marks the lane busy.
  template <class Start>
  void start_ready(const Body& body, const LaneQueues& queues, Start start) {
    for (std::size_t lane = 0; lane < queues.lanes.size(); ++lane) {
      if (busy[lane] || done[lane] == queues.lanes[lane].size()) continue;
      const std::uint32_t op = queues.lanes[lane][done[lane]];
      const auto ended = [&](std::uint32_t wait) { return has_ended(body, queues, wait); };
      if (!std::ranges::all_of(body.waits_of(body.ops[op]), ended)) continue;
      busy[lane] = 1;
      start(op);
    }
  }

  // Ends the lane's busy op and returns its number.
  std::uint32_t end(const LaneQueues& queues, std::uint8_t lane) {
    busy[lane] = 0;
    return queues.lanes[lane][done[lane]++];
  }
};

}  // namespace tandem
