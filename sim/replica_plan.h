// ReplicaPlan: the ops of one replica in an order that respects all waiting, whatever they take.
//
// Where nothing contends an op starts when what it waits for has ended, so one order serves every
// draw of durations and every replica of the same form: a pass over it is a loop over an array.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/program/lanes.h"
#include "schedule/program/program.h"
#include "schedule/program/replicas.h"

namespace tandem {

// An event of the replica: an op of one of its members (its ranks, counted from 0).
struct ReplicaStep {
  enum class Kind : std::uint8_t {
    Compute,
    Arrives,  // at a communication inside the replica; steps of the others follow
    Starts,   // the last of them: all of them start
    Meets,    // arrives at a communication with other replicas
  };
  std::uint32_t event = 0;
  std::uint32_t first_wait = 0;  // into ReplicaPlan::waits, up to the next step's
  std::uint32_t op = 0;
  std::uint16_t member = 0;
  Kind kind = Kind::Compute;
  bool reduces = false;  // gradients; of kind Meets
};

// A step of kind Meets: a member's so-many-th op of its communicator.
struct ReplicaMeeting {
  std::uint32_t step = 0;
  std::uint32_t instance = 0;
};

// Steps that follow from the meetings of the levels before: up to `end_step`, where every lane has
// ended or waits for other replicas.
struct ReplicaLevel {
  std::size_t end_step = 0;
  std::vector<ReplicaMeeting> meets;
  std::vector<std::uint32_t> kept;  // events of this level or one before that later steps wait for
};

struct ReplicaPlan {
  std::vector<std::size_t> first;    // a member's first event; one more at the end
  std::vector<ReplicaStep> steps;    // one more at the end
  std::vector<std::uint32_t> waits;  // events
  std::vector<ReplicaLevel> levels;

  std::span<const std::uint32_t> waits_of(std::size_t step) const {
    return {waits.data() + steps[step].first_wait, waits.data() + steps[step + 1].first_wait};
  }
};

// `queues`: of the program's bodies. Nothing where the replica would wait for ever.
std::optional<ReplicaPlan> plan_replica(const Program& program, std::span<const LaneQueues> queues,
                                        const Replicas& replicas,
                                        std::span<const std::int32_t> ranks);

}  // namespace tandem
