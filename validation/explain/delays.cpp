#include "validation/explain/delays.h"

#include <algorithm>
#include <optional>

namespace tandem {
namespace {

constexpr Nanoseconds kTolerance = 10'000;  // between an end and what it lets begin

// Returns when an op could have begun: after the compute before it and all that it waits for.
// Nothing: the profile does not tell one of them.
std::optional<Nanoseconds> ready_of(const Body& body, const MeasuredStep& step, std::uint32_t op,
                                    const MeasuredOp* before, Nanoseconds begin_ns) {
  Nanoseconds ready = begin_ns;
  if (before != nullptr) {
    if (!before->known()) return std::nullopt;
    ready = std::max(ready, before->end_ns);
  }
  for (const std::uint32_t wait : body.waits_of(body.ops[op])) {
    if (!step.ops[wait].known()) return std::nullopt;
    ready = std::max(ready, step.ops[wait].end_ns);
  }
  return ready;
}

// Returns the communication that was in flight for the whole gap, and until whose end the op waited
// though the Program does not say so.
const Op* awaited(const Body& body, const MeasuredStep& step, Nanoseconds ready,
                  Nanoseconds start) {
  const Nanoseconds near = std::max(kTolerance, (start - ready) / 50);
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const MeasuredOp& other = step.ops[i];
    if (is_compute(body.ops[i].kind) || !other.known()) continue;
    if (other.start_ns <= ready + near && other.end_ns > ready + near && other.end_ns <= start &&
        other.end_ns >= start - near)
      return &body.ops[i];
  }
  return nullptr;
}

}  // namespace

std::vector<Delay> delays_of(const Body& body, const MeasuredStep& step, Nanoseconds begin_ns,
                             Nanoseconds pause_ns) {
  std::vector<Delay> delays;
  const MeasuredOp* before = nullptr;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    if (!is_compute(op.kind)) continue;
    const MeasuredOp& own = step.ops[i];
    const bool is_first = before == nullptr;
    const auto ready = ready_of(body, step, i, before, begin_ns);
    before = &own;
    if (!own.known()) continue;
    const Nanoseconds gap = ready ? own.start_ns - *ready : 0;
    if (gap > 0) {
      const Op* const other = awaited(body, step, *ready, own.start_ns);
      Delay delay{i, DelayKind::Launch, GroupKind::Pipeline, gap};
      if (other != nullptr) {
        delay.kind = DelayKind::Overlap;
        delay.waited_for = body.slots[other->slot].group_kind;
      } else if (2 * length_of(intersection_of({{*ready, own.start_ns}}, step.copies)) > gap) {
        delay.kind = DelayKind::Copies;
      } else if (is_first && op.waits == 0) {
        delay.kind = DelayKind::Input;
      } else if (op.kind == OpKind::Optimizer) {
        delay.kind = DelayKind::Synchronisation;
      } else if (gap >= pause_ns) {
        delay.kind = DelayKind::Pause;
      }
      delays.push_back(delay);
    }
    if (own.idle_ns > 0) {
      const DelayKind kind = own.longest_idle_ns >= pause_ns ? DelayKind::Pause : DelayKind::Launch;
      delays.push_back({i, kind, GroupKind::Pipeline, own.idle_ns});
    }
  }
  return delays;
}

}  // namespace tandem
