// Programs by hand for tests of executors: two ranks, an edge each way, ops as the test lists them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Ranks with bodies of their own. Lane 0 computes; each communicator has a lane on its members,
// named by them ("0>1").
struct HandJob {
  Program program;

  explicit HandJob(int ranks) {
    program.name = "by hand";
    for (int rank = 0; rank < ranks; ++rank) {
      program.bodies.emplace_back().lanes.push_back({"compute"});
      program.ranks.push_back({rank, {}});
    }
  }

  // The communicator's number.
  int join(const std::vector<int>& ranks, GroupKind group_kind = GroupKind::Pipeline) {
    const int number = static_cast<int>(program.communicators.size());
    Communicator& communicator = program.communicators.emplace_back();
    communicator.group_kind = group_kind;
    std::string lane;
    for (const int rank : ranks) lane += (lane.empty() ? "" : ">") + std::to_string(rank);
    for (const int rank : ranks) {
      communicator.members.push_back(Rank{rank});
      Body& body = program.bodies[rank];
      body.slots.push_back({group_kind, static_cast<std::uint8_t>(body.lanes.size())});
      body.lanes.push_back({lane});
      program.ranks[rank].communicators.push_back(number);
    }
    return number;
  }

  std::uint32_t compute(int rank, int microbatch, Nanoseconds duration_ns,
                        const std::vector<std::uint32_t>& waits = {}) {
    return add(rank,
               {.kind = OpKind::Forward, .duration_ns = duration_ns, .microbatch = microbatch},
               waits);
  }

  std::uint32_t comm(int rank, OpKind kind, int communicator, int microbatch,
                     const std::vector<std::uint32_t>& waits = {}, Nanoseconds duration_ns = 0,
                     Bytes bytes = 64) {
    const std::vector<std::int32_t>& slots = program.ranks[rank].communicators;
    std::int16_t slot = 0;
    while (slots[slot] != communicator) ++slot;
    return add(rank,
               {.kind = kind,
                .lane = program.bodies[rank].slots[slot].lane,
                .slot = slot,
                .duration_ns = duration_ns,
                .bytes = bytes,
                .microbatch = microbatch},
               waits);
  }

 private:
  std::uint32_t add(int rank, Op op, const std::vector<std::uint32_t>& waits) {
    op.stage = static_cast<std::int16_t>(rank);
    return add_op(op, waits, &program.bodies[rank]);
  }
};

}  // namespace tandem
