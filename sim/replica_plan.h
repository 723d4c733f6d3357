// ReplicaPlan: the ops of one replica in an order in which each comes after all that it waits for,
// whatever the durations.
//
// Where nothing contends, an op starts when all that it waits for has ended. So one order serves
// every draw of durations and every replica of the same form, and to play it is a loop over an
// array.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/program/lanes.h"
#include "schedule/program/program.h"
#include "schedule/program/replicas.h"

namespace tandem {

// A step plays one event: an op of one of the replica's members (its ranks, counted from 0). Events
// are numbered member after member.
struct ReplicaStep {
  enum class Kind : std::uint8_t {
    Compute,
    Arrives,  // at a communication inside the replica; steps of the other members follow
    Starts,   // the last member's arrival: the operation starts on all of them
    Meets,    // arrives at a communication with other replicas
  };
  std::uint32_t event = 0;
  std::uint32_t first_wait = 0;  // into ReplicaPlan::waits, up to the next step's
  std::uint32_t op = 0;          // in the member's body
  std::uint16_t member = 0;
  Kind kind = Kind::Compute;
  bool reduces = false;  // kind Meets: a reduction of gradients
};

// A step of kind Meets. Its op is number `instance` of the member's ops on that communicator.
struct ReplicaMeeting {
  std::uint32_t step = 0;
  std::uint32_t instance = 0;
};

// The steps that can be played once the meetings of all earlier levels have started. After them
// every lane has ended or waits for other replicas.
struct ReplicaLevel {
  std::size_t end_step = 0;  // the next level's first step
  std::vector<ReplicaMeeting> meets;
  std::vector<std::uint32_t> kept;  // events until here that steps of later levels wait for
};

struct ReplicaPlan {
  std::vector<std::size_t> first_event;  // by member; a last entry has the number of events
  std::vector<ReplicaStep> steps;        // a last entry, no step, has the end of the waits
  std::vector<std::uint32_t> waits;      // events
  std::vector<ReplicaLevel> levels;

  std::size_t first_step(std::size_t level) const {
    return level == 0 ? 0 : levels[level - 1].end_step;
  }
  std::span<const std::uint32_t> waits_of(std::size_t step) const {
    return {waits.data() + steps[step].first_wait, waits.data() + steps[step + 1].first_wait};
  }
};

// Returns the plan of the replica of these ranks, or nothing if the replica would wait for ever.
// `queues`: by body.
std::optional<ReplicaPlan> plan_replica(const Program& program, std::span<const LaneQueues> queues,
                                        const Replicas& replicas,
                                        std::span<const std::int32_t> ranks);

}  // namespace tandem
