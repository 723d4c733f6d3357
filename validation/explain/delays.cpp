// Compares each op's measured start with the end of all that it waits for: the rest is a gap.
#include "validation/explain/delays.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace tandem {
namespace {

constexpr Nanoseconds kTolerance = 10'000;  // ns from an end to the start that waits for it

// Returns how far apart two events after a wait may be and still count as simultaneous.
Nanoseconds tolerance_after(Nanoseconds wait_ns) { return std::max(kTolerance, wait_ns / 50); }

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

// Returns the communication at whose end the op begins though the Program does not make it wait:
// one before the op in the body, or one that was in flight when the gap began. Null: there is none.
const Op* awaited(const Body& body, const MeasuredStep& step, std::uint32_t op, Nanoseconds ready,
                  Nanoseconds start) {
  const Nanoseconds near = tolerance_after(start - ready);
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const MeasuredOp& other = step.ops[i];
    if (is_compute(body.ops[i].kind) || !other.known()) continue;
    const bool may_hold_up = i < op || other.start_ns <= ready + near;
    const bool ends_in_gap = other.end_ns > ready + near && other.end_ns <= start;
    const bool ends_as_op_begins = other.end_ns >= start - near;
    if (may_hold_up && ends_in_gap && ends_as_op_begins) return &body.ops[i];
  }
  return nullptr;
}

using OpStarts = std::map<Nanoseconds, std::uint32_t>;

OpStarts compute_starts(const StepDelays& rank) {
  OpStarts starts;
  for (std::uint32_t i = 0; i < rank.body->ops.size(); ++i) {
    const MeasuredOp& op = rank.step->ops[i];
    if (is_compute(rank.body->ops[i].kind) && op.known()) starts.emplace(op.start_ns, i);
  }
  return starts;
}

// Says whether the delay ends as find_barriers() requires. A barrier takes time itself, so ranks
// leave it at nearly, not quite, one instant.
bool ends_with_others(const StepDelays& own, const Delay& delay,
                      const std::vector<StepDelays>& ranks, const std::vector<OpStarts>& starts) {
  const Nanoseconds at = own.step->ops[delay.op].start_ns;
  const Nanoseconds near = std::max(kTolerance, delay.ns / 10);
  int waiting = 0;  // ranks that begin an op at this instant after a wait
  bool has_last = false, last_is_alike = false;  // one without a wait; with the same op and body
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto op = starts[i].lower_bound(at - near);  // the rank's op that starts at this instant
    if (op == starts[i].end() || op->first > at + near) continue;
    const bool waits = std::ranges::any_of(ranks[i].delays, [&](const Delay& other) {
      return other.op == op->second && other.is_before && other.ns > near;
    });
    if (waits) {
      ++waiting;
      continue;
    }
    has_last = true;
    if (ranks[i].body == own.body && op->second == delay.op) last_is_alike = true;
  }
  return last_is_alike || (has_last && waiting > 1);
}

// Returns the delay of an op that could have begun at `ready`, by the first cause that applies.
// `is_first`: no compute of the step comes before it.
Delay delay_before(const Body& body, const MeasuredStep& step, std::uint32_t number,
                   Nanoseconds ready, bool is_first, Nanoseconds pause_ns) {
  const Op& op = body.ops[number];
  const Nanoseconds start = step.ops[number].start_ns, gap = start - ready;
  Delay delay{number, DelayKind::Launch, GroupKind::Pipeline, gap};
  if (const Op* const other = awaited(body, step, number, ready, start)) {
    delay.kind = DelayKind::Overlap;
    delay.waited_for = body.slots[other->slot].group_kind;
  } else if (2 * length_of(intersection_of({{ready, start}}, step.copies)) > gap) {
    delay.kind = DelayKind::Copies;
  } else if (is_first && op.waits == 0) {
    delay.kind = DelayKind::Input;
  } else if (op.kind == OpKind::Optimizer) {
    delay.kind = DelayKind::Synchronisation;
  } else if (gap >= pause_ns) {
    delay.kind = DelayKind::Pause;
  }
  return delay;
}

}  // namespace

std::vector<Delay> delays_of(const Body& body, const MeasuredStep& step, Nanoseconds begin_ns,
                             Nanoseconds pause_ns) {
  std::vector<Delay> delays;
  const MeasuredOp* before = nullptr;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (!is_compute(body.ops[i].kind)) continue;
    const MeasuredOp& own = step.ops[i];
    const bool is_first = before == nullptr;
    const auto ready = ready_of(body, step, i, before, begin_ns);
    before = &own;
    if (!own.known()) continue;
    if (ready && own.start_ns > *ready)
      delays.push_back(delay_before(body, step, i, *ready, is_first, pause_ns));
    if (own.idle_ns > 0) {
      const DelayKind kind = own.longest_idle_ns >= pause_ns ? DelayKind::Pause : DelayKind::Launch;
      delays.push_back({i, kind, GroupKind::Pipeline, own.idle_ns, false});
    }
  }
  return delays;
}

void find_barriers(std::vector<StepDelays>* ranks) {
  std::vector<OpStarts> starts;
  for (StepDelays& rank : *ranks) {
    for (Delay& delay : rank.delays) {
      if (delay.kind != DelayKind::Pause || !delay.is_before) continue;
      if (starts.empty())
        std::ranges::transform(*ranks, std::back_inserter(starts), compute_starts);
      if (ends_with_others(rank, delay, *ranks, starts)) delay.kind = DelayKind::Barrier;
    }
  }
}

DelayWords words_of(DelayKind kind) {
  static const std::map<DelayKind, DelayWords> kWords = {
      {DelayKind::Copies,
       {"copies between GPU and host hold compute up",
        "checkpoints and offloads: copy on another stream, to pinned memory, beside compute"}},
      {DelayKind::Input,
       {"the step's first op waits for its data", "load and copy the next batch ahead"}},
      {DelayKind::Synchronisation,
       {"the optimizer waits", "look for .item(), a gradient norm or a barrier before it"}},
      {DelayKind::Barrier,
       {"ranks wait for each other where the Program does not",
        "look for a barrier or a collective of the host's at that point of the step"}},
      {DelayKind::Pause,
       {"pauses in which a rank computes nothing",
        "look at the host: garbage collection, "
        "other processes, a synchronisation"}},
      {DelayKind::Launch,
       {"kernels are launched late", "CUDA graphs, larger microbatches, or a faster host"}},
      {DelayKind::Overlap,
       {"communication that should overlap compute is waited for",
        "look why: one stream, a synchronisation, CUDA_DEVICE_MAX_CONNECTIONS"}}};
  return kWords.at(kind);
}

}  // namespace tandem
