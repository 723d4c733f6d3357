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

// A step ends an event: an op of one of the replica's members (its ranks, counted from 0).
struct ReplicaStep {
  enum class Kind : std::uint8_t {
    Compute,
    Arrives,  // at a communication inside the replica; steps of the other members follow
    Starts,   // the last member to arrive: the operation starts on all of them
    Meets,    // arrives at a communication with other replicas
  };
  std::uint32_t event = 0;
  std::uint32_t first_wait = 0;  // into ReplicaPlan::waits, up to the next step's
  std::uint32_t op = 0;
  std::uint16_t member = 0;
  Kind kind = Kind::Compute;
  bool reduces = false;  // kind Meets: a reduction of gradients
};

// A step of kind Meets; the op is number `instance` of those on its communicator.
struct ReplicaMeeting {
  std::uint32_t step = 0;
  std::uint32_t instance = 0;
};

// The steps that can be played once the meetings of the levels before have started. They end before
// `end_step`, where every lane has ended or waits for other replicas.
struct ReplicaLevel {
  std::size_t end_step = 0;
  std::vector<ReplicaMeeting> meets;
  // Events of this level or earlier ones that later steps wait for.
  std::vector<std::uint32_t> kept;
};

struct ReplicaPlan {
  std::vector<std::size_t> first;    // by member: its first event; one more at the end
  std::vector<ReplicaStep> steps;    // one more at the end
  std::vector<std::uint32_t> waits;  // events
  std::vector<ReplicaLevel> levels;

  std::span<const std::uint32_t> waits_of(std::size_t step) const {
    return {waits.data() + steps[step].first_wait, waits.data() + steps[step + 1].first_wait};
  }
};

// Returns the plan, or nothing if the replica would wait for ever. `queues` are those of the
// program's bodies.
std::optional<ReplicaPlan> plan_replica(const Program& program, std::span<const LaneQueues> queues,
                                        const Replicas& replicas,
                                        std::span<const std::int32_t> ranks);

}  // namespace tandem
