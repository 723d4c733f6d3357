// Goes through the ops forwards for what each awaits, and backwards for what waits for it: waits
// lead to earlier ops alone.
#include "validation/explain/compute_waits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "traces/profile/op_keys.h"

namespace tandem {

bool ComputeWaits::overlaps(std::uint32_t comm) const {
  if (last_awaited[comm] < 0) return false;
  const auto awaited = static_cast<std::size_t>(last_awaited[comm]);
  return first_waiter[comm] > std::max(next_compute[awaited], last_of_pass[awaited]);
}

ComputeWaits compute_waits(const Body& body) {
  const auto ops = static_cast<std::uint32_t>(body.ops.size());
  ComputeWaits found{.first_waiter = std::vector<std::uint32_t>(ops, ops),
                     .last_awaited = std::vector<std::int64_t>(ops, -1),
                     .next_compute = std::vector<std::uint32_t>(ops, ops),
                     .last_of_pass = std::vector<std::uint32_t>(ops, ops)};
  std::map<PassKey, std::uint32_t> last_ops;
  std::uint32_t next = ops;
  for (std::uint32_t i = ops; i-- > 0;) {  // the first op that is seen of a pass is its last
    const Op& op = body.ops[i];
    const bool computes = is_compute(op.kind);
    if (computes) {
      found.next_compute[i] = std::exchange(next, i);
      const PassKey pass{phase_of(op.kind), op.stage, op.microbatch};
      found.last_of_pass[i] = last_ops.try_emplace(pass, i).first->second;
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
