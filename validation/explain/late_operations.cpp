// An operation begins with its last member, and could begin when on each member the operation
// before it on the lane, and all that it waits for, have ended.
#include "validation/explain/late_operations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "validation/explain/compute_waits.h"
#include "validation/explain/op_durations.h"

namespace tandem {
namespace {

constexpr Nanoseconds kLeastLate = 10'000;  // ns; less is not late

// When an operation could begin and when it began, as its members in the profile tell.
struct Begin {
  bool overlaps = false;                          // compute may run beside it, on a member
  bool is_known = true;                           // each member tells it, and all that it waits for
  std::optional<Nanoseconds> ready_ns, start_ns;  // of the last member

  Nanoseconds late_ns() const {
    return overlaps && is_known && ready_ns ? *start_ns - *ready_ns : 0;
  }
};
using Begins = std::map<std::pair<std::int32_t, std::uint32_t>, Begin>;  // by communicator, number

void add_begins(const Program& program, const StepDelays& rank, Begins* begins) {
  const Body& body = *rank.body;
  const ComputeWaits waits = compute_waits(body);
  const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
  std::vector<const MeasuredOp*> last_on_lane(body.lanes.size());
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    const MeasuredOp& measured = rank.step->ops[i];
    const MeasuredOp* const before = std::exchange(last_on_lane[op.lane], &measured);
    if (op.slot < 0) continue;
    Begin& begin = (*begins)[{program.ranks[rank.rank].communicators[op.slot], numbers[i]}];
    begin.overlaps |= waits.overlaps(i);
    begin.is_known &= measured.known();
    begin.start_ns = std::max(begin.start_ns, std::optional(measured.start_ns));
    const auto wait_for = [&](const MeasuredOp& other) {
      begin.is_known &= other.known();
      begin.ready_ns = std::max(begin.ready_ns, std::optional(other.end_ns));
    };
    if (before != nullptr) wait_for(*before);
    for (const std::uint32_t wait : body.waits_of(op)) wait_for(rank.step->ops[wait]);
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
