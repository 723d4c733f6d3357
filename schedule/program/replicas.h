// Replicas: splits the ranks of a Program into parts that meet only to reduce gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Ranks that communicate, directly or not, in groups other than data-parallel ones. Usually a
// replica is a chain of pipeline ranks with their tensor-parallel peers. If experts are cut over
// replicas, it is all of those.
struct Replicas {
  // By replica, in order of its first rank: its ranks, rising.
  std::vector<std::vector<std::int32_t>> ranks;
  // By communicator: whether its members belong to more than one replica.
  std::vector<bool> between;
};

Replicas part(const Program& program);

}  // namespace tandem
