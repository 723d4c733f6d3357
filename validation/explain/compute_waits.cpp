// Goes through the ops forwards for what each awaits, and backwards for what waits for it: waits
// lead to earlier ops alone.
#include "validation/explain/compute_waits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "traces/profile/op_keys.h"

namespace tandem {

bool ComputeWaits::overlaps(std::uint32_t op) const {
  if (last_awaited[op] < 0) return false;
  const auto awaited = static_cast<std::size_t>(last_awaited[op]);
  return first_waiter[op] > std::max(next[awaited], last_of_pass[awaited]);
}

ComputeWaits compute_waits(const Body& body) {
  const auto ops = static_cast<std::uint32_t>(body.ops.size());
  ComputeWaits found{.first_waiter = std::vector<std::uint32_t>(ops, ops),
                     .last_awaited = std::vector<std::int64_t>(ops, -1),
                     .next = std::vector<std::uint32_t>(ops, ops),
                     .last_of_pass = std::vector<std::uint32_t>(ops, ops)};
  std::map<PassKey, std::uint32_t> passes;
  std::uint32_t behind = ops;
  for (std::uint32_t i = ops; i-- > 0;) {
    const Op& op = body.ops[i];
    const bool computes = is_compute(op.kind);
    if (computes) {
      found.next[i] = std::exchange(behind, i);
      found.last_of_pass[i] =
          passes.try_emplace({phase_of(op.kind), op.stage, op.microbatch}, i).first->second;
    }
    for (const std::uint32_t wait : body.waits_of(op))
      found.first_waiter[wait] =
          std::min(found.first_waiter[wait], computes ? i : found.first_waiter[i]);
  }
  for (std::uint32_t i = 0; i < ops; ++i) {
    for (const std::uint32_t wait : body.waits_of(body.ops[i])) {
      const bool computes = is_compute(body.ops[wait].kind);
      found.last_awaited[i] =
          std::max(found.last_awaited[i], computes ? wait : found.last_awaited[wait]);
    }
  }
  return found;
}

}  // namespace tandem
