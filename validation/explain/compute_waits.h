// ComputeWaits: which ops of compute a Program lets run beside each communication.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Tells of each op of a body. Waits count also through other communication.
struct ComputeWaits {
  std::vector<std::uint32_t> first_waiter;  // communication: the first op of compute that waits for
                                            // it; if none does, the number of ops
  std::vector<std::int64_t> last_awaited;   // communication: the last op of compute for which it
                                            // waits; -1: none
  std::vector<std::uint32_t> next;          // compute: the op of compute behind it, as first_waiter
  std::vector<std::uint32_t> last_of_pass;  // compute: the last op of its pass

  // Says whether the communication may run beside compute: the first op that waits for it comes
  // after the compute behind the last op that it awaits, and after the pass of that op. Places of
  // ops inside a pass of several kernels are estimates.
  bool overlaps(std::uint32_t op) const;
};

ComputeWaits compute_waits(const Body& body);

}  // namespace tandem
