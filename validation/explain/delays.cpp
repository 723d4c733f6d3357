// Compares each op's measured start with the end of all that it waits for: the rest is a gap.
#include "validation/explain/delays.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "validation/explain/compute_waits.h"

namespace tandem {
namespace {

constexpr Nanoseconds kTolerance = 10'000;  // ns from an end to the start that waits for it

// Returns how far apart two events after a wait may be and still count as simultaneous.
Nanoseconds tolerance_after(Nanoseconds wait_ns) { return std::max(kTolerance, wait_ns / 50); }

// A step of a rank, and its communications that the profile tells, by their ends.
struct RankStep {
  const Body& body;
  const MeasuredStep& step;
  std::vector<std::uint32_t> comms;

  Nanoseconds end_of(std::uint32_t op) const { return step.ops[op].end_ns; }
  // Returns the communications that end after one moment, and not after the other.
  std::span<const std::uint32_t> ending(Nanoseconds after, Nanoseconds until) const {
    const auto begin =
        std::ranges::partition_point(comms, [&](std::uint32_t op) { return end_of(op) <= after; });
    const auto end =
        std::ranges::partition_point(comms, [&](std::uint32_t op) { return end_of(op) <= until; });
    return begin < end ? std::span(begin, end) : std::span<const std::uint32_t>();
  }
};

RankStep rank_step(const Body& body, const MeasuredStep& step) {
  RankStep own{body, step, {}};
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (!is_compute(body.ops[i].kind) && step.ops[i].known()) own.comms.push_back(i);
  }
  std::ranges::stable_sort(own.comms, {}, [&](std::uint32_t op) { return own.end_of(op); });
  return own;
}

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

// Returns the communication that fits and at whose end compute goes on at `start`: one before the
// op in the body, or one that was in flight when the gap began. Null: there is none.
template <class Fits>
const Op* awaited(const RankStep& own, std::uint32_t op, Nanoseconds ready, Nanoseconds start,
                  const Fits& fits) {
  const Nanoseconds near = tolerance_after(start - ready);
  std::optional<std::uint32_t> first;  // in the body's order
  for (const std::uint32_t i : own.ending(std::max(ready + near, start - near - 1), start)) {
    const bool may_hold_up = i < op || own.step.ops[i].start_ns <= ready + near;
    if (may_hold_up && fits(i) && (!first || i < *first)) first = i;
  }
  return first ? &own.body.ops[*first] : nullptr;
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
Delay delay_before(const RankStep& own, std::uint32_t number, Nanoseconds ready, bool is_first,
                   Nanoseconds pause_ns) {
  const Op& op = own.body.ops[number];
  const Nanoseconds start = own.step.ops[number].start_ns, gap = start - ready;
  Delay delay{number, DelayKind::Launch, GroupKind::Pipeline, gap};
  const auto any = [](std::uint32_t) { return true; };
  if (const Op* const other = awaited(own, number, ready, start, any)) {
    delay.kind = DelayKind::Overlap;
    delay.waited_for = own.body.slots[other->slot].group_kind;
  } else if (2 * length_of(intersection_of({{ready, start}}, own.step.copies)) > gap) {
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

// Returns the parts of a span of time that the intervals leave.
Intervals left_by(const Intervals& intervals, Nanoseconds from, Nanoseconds to) {
  Intervals left;
  auto span = std::ranges::partition_point(
      intervals, [&](const auto& interval) { return interval.second <= from; });
  for (; span != intervals.end() && span->first < to; ++span) {
    if (span->first > from) left.emplace_back(from, span->first);
    from = span->second;
  }
  if (from < to) left.emplace_back(from, to);
  return left;
}

// Returns the delay in a gap of compute inside an op, if the gap ends with a communication that no
// op of the pass needs. The places of ops inside a pass are estimates, so the time until the end of
// a communication that the pass does need is no delay.
std::optional<Delay> overlap_inside(const RankStep& own, const ComputeWaits& waits,
                                    std::uint32_t op, Nanoseconds from, Nanoseconds to) {
  if (to - from <= kTolerance) return std::nullopt;
  const auto is_free = [&](std::uint32_t comm) {
    return waits.first_waiter[comm] > waits.last_of_pass[op];
  };
  for (const std::uint32_t comm : own.ending(from, to)) {
    if (!is_free(comm)) from = own.end_of(comm);
  }
  const Op* const other = awaited(own, op, from, to, is_free);
  if (other == nullptr) return std::nullopt;
  return Delay{op, DelayKind::Overlap, own.body.slots[other->slot].group_kind, to - from, false};
}

// Adds the delays in the gaps between an op's kernels.
void add_inside(const RankStep& own, const ComputeWaits& waits, std::uint32_t op,
                Nanoseconds pause_ns, std::vector<Delay>* delays) {
  const MeasuredStep& step = own.step;
  Nanoseconds idle_ns = 0, longest_ns = 0;
  for (const auto& [from, to] :
       left_by(step.computing, step.ops[op].start_ns, step.ops[op].end_ns)) {
    const Intervals idle = left_by(step.active, from, to);
    if (length_of(idle) < to - from) {
      if (const auto delay = overlap_inside(own, waits, op, from, to)) {
        delays->push_back(*delay);
        continue;
      }
    }
    for (const auto& [begin, end] : idle) {
      idle_ns += end - begin;
      longest_ns = std::max(longest_ns, end - begin);
    }
  }
  if (idle_ns == 0) return;
  const DelayKind kind = longest_ns >= pause_ns ? DelayKind::Pause : DelayKind::Launch;
  delays->push_back({op, kind, GroupKind::Pipeline, idle_ns, false});
}

}  // namespace

std::vector<Delay> delays_of(const Body& body, const MeasuredStep& step, Nanoseconds begin_ns,
                             Nanoseconds pause_ns) {
  std::vector<Delay> delays;
  const ComputeWaits waits = compute_waits(body);
  const RankStep own = rank_step(body, step);
  const MeasuredOp* before = nullptr;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (!is_compute(body.ops[i].kind)) continue;
    const MeasuredOp& op = step.ops[i];
    const bool is_first = before == nullptr;
    const auto ready = ready_of(body, step, i, before, begin_ns);
    before = &op;
    if (!op.known()) continue;
    if (ready && op.start_ns > *ready)
      delays.push_back(delay_before(own, i, *ready, is_first, pause_ns));
    add_inside(own, waits, i, pause_ns, &delays);
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
