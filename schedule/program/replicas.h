// Replicas: the ranks of a Program, parted where they meet only to reduce gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Ranks that communicate in other groups than data-parallel ones, directly or not: usually a chain
// of pipeline ranks with their tensor-parallel peers; with experts cut over replicas all of these.
struct Replicas {
  std::vector<std::vector<std::int32_t>> ranks;  // each replica's, rising; in order of their first
  // By communicator: whether its members are of more than one replica.
  std::vector<bool> between;
};

Replicas part(const Program& program);

}  // namespace tandem
