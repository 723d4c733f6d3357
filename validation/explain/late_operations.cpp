// An operation begins with its last member, and could begin when on each member the operation
// before it on the lane, and all that it waits for, have ended.
#include "validation/explain/late_operations.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "validation/explain/compute_waits.h"
#include "validation/explain/op_durations.h"

namespace tandem {
namespace {

constexpr Nanoseconds kLeastLate = 10'000;
constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::min();

// An operation of a step, as far as its members in the profile tell.
struct Begin {
  bool overlaps = false;  // on a member
  bool is_told = true;    // all that a member waits for
  Nanoseconds ready_ns = kNever, start_ns = kNever;

  Nanoseconds late_ns() const {
    return overlaps && is_told && ready_ns != kNever ? start_ns - ready_ns : 0;
  }
};
using Begins = std::map<std::pair<std::int32_t, std::uint32_t>, Begin>;  // by communicator, number

void add_begins(const Program& program, const StepDelays& rank, Begins* begins) {
  const Body& body = *rank.body;
  const ComputeWaits waits = compute_waits(body);
  const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
  std::vector<const MeasuredOp*> last(body.lanes.size());
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    const MeasuredOp& own = rank.step->ops[i];
    const MeasuredOp* const before = std::exchange(last[op.lane], &own);
    if (op.slot < 0) continue;
    Begin& begin = (*begins)[{program.ranks[rank.rank].communicators[op.slot], numbers[i]}];
    begin.overlaps |= waits.overlaps(i);
    begin.is_told &= own.known();
    begin.start_ns = std::max(begin.start_ns, own.start_ns);
    const auto follows = [&](const MeasuredOp& other) {
      begin.is_told &= other.known();
      begin.ready_ns = std::max(begin.ready_ns, other.end_ns);
    };
    if (before != nullptr) follows(*before);
    for (const std::uint32_t wait : body.waits_of(op)) follows(rank.step->ops[wait]);
  }
}

}  // namespace

void add_late_operations(const Program& program, const std::vector<StepDelays>& ranks,
                         std::vector<std::vector<double>>* late_ns) {
  Begins begins;
  for (const StepDelays& rank : ranks) add_begins(program, rank, &begins);
  for (const auto& [operation, begin] : begins) {
    const auto& [communicator, number] = operation;
    if (begin.late_ns() >= kLeastLate)
      (*late_ns)[communicator][number] += static_cast<double>(begin.late_ns());
  }
}

}  // namespace tandem
