// ComputeWaits: which ops of compute a Program lets run beside each communication.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Tells which compute waits for each communication of a body, also through other communication.
struct ComputeWaits {
  // By communication: the first op of compute that waits for it, or the number of ops; and the last
  // op of compute that it awaits, or -1.
  std::vector<std::uint32_t> first_waiter;
  std::vector<std::int64_t> last_awaited;
  // By op of compute: the next op of compute, or the number of ops; and the last op of its pass.
  std::vector<std::uint32_t> next_compute, last_of_pass;

  // Says whether compute may run beside the communication: between the op that it awaits and the op
  // that waits for it there is another. In F0, send, F1, F2, where the send awaits F0 and F2 awaits
  // the send, this is F1. Both ops must be of two passes, inside which places are estimates.
  bool overlaps(std::uint32_t comm) const;
};

ComputeWaits compute_waits(const Body& body);

}  // namespace tandem
