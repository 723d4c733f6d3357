// Replicas: splits the ranks of a Program into parts that meet only to reduce gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// The ranks in parts that are connected, directly or not, by groups other than data-parallel ones.
// Usually such a part is one data-parallel replica: a chain of pipeline ranks with their
// tensor-parallel peers. Replicas that share experts are one part.
struct Replicas {
  // By replica, in order of its first rank: its ranks, rising.
  std::vector<std::vector<std::int32_t>> ranks;
  // By communicator: whether its members belong to more than one replica.
  std::vector<bool> between;
};

Replicas part(const Program& program);

}  // namespace tandem
