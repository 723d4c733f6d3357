// Compares each op's measured start with the end of all that it waits for: the rest is a gap.
#include "validation/explain/delays.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "validation/explain/compute_waits.h"

namespace tandem {
namespace {

constexpr Nanoseconds kTolerance = 10'000;  // ns from an end to the start that waits for it

// A step of a rank, and its communications that the profile tells, by their ends.
struct RankStep {
  const Body& body;
  const MeasuredStep& measured;
  std::vector<std::uint32_t> comms;

  Nanoseconds start_of(std::uint32_t op) const { return measured.ops[op].start_ns; }
  Nanoseconds end_of(std::uint32_t op) const { return measured.ops[op].end_ns; }
  // Returns the communications with ends in (after, until].
  std::span<const std::uint32_t> ending(Nanoseconds after, Nanoseconds until) const {
    const auto first_after = [&](Nanoseconds at) {
      return std::ranges::upper_bound(comms, at, {}, [&](std::uint32_t op) { return end_of(op); });
    };
    if (after >= until) return {};
    return std::span(first_after(after), first_after(until));
  }
};

RankStep rank_step(const Body& body, const MeasuredStep& measured) {
  RankStep step{body, measured, {}};
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (!is_compute(body.ops[i].kind) && measured.ops[i].known()) step.comms.push_back(i);
  }
  std::ranges::stable_sort(step.comms, {}, [&](std::uint32_t op) { return step.end_of(op); });
  return step;
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

// Returns the communication for which an op of compute waited in the gap from `ready` to `start`;
// of several the first in the body; null: none. Such a communication
// - ends in the gap, nearly when compute goes on;
// - comes before the op in the body, or was in flight when the gap began;
// - is one for which fits(its number) is true.
template <class Fits>
const Op* awaited(const RankStep& step, std::uint32_t op, Nanoseconds ready, Nanoseconds start,
                  const Fits& fits) {
  const Nanoseconds tolerance = std::max(kTolerance, (start - ready) / 50);
  const Nanoseconds begun = ready + tolerance, ends_from = start - tolerance;
  std::optional<std::uint32_t> first;
  // An end exactly at ends_from counts, while ending() leaves its first bound out: hence - 1.
  for (const std::uint32_t comm : step.ending(std::max(begun, ends_from - 1), start)) {
    const bool may_hold_up = comm < op || step.start_of(comm) <= begun;
    if (may_hold_up && fits(comm)) first = std::min(comm, first.value_or(comm));
  }
  return first ? &step.body.ops[*first] : nullptr;
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

// Says whether the delay ends at a barrier, as find_barriers() tells one. A barrier takes time
// itself, so ranks leave it at nearly, not quite, one instant.
bool ends_at_barrier(const StepDelays& own, const Delay& delay,
                     const std::vector<StepDelays>& ranks, const std::vector<OpStarts>& starts) {
  const Nanoseconds at = own.step->ops[delay.op].start_ns;
  const Nanoseconds tolerance = std::max(kTolerance, delay.ns / 10);
  // Ranks that begin an op at this instant: after a wait (the delayed rank itself is one of these),
  // without a wait the same op, and without a wait another op.
  int waited = 0, came_last_alike = 0, came_last = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto begun = starts[i].lower_bound(at - tolerance);
    if (begun == starts[i].end() || begun->first > at + tolerance) continue;
    const std::uint32_t op = begun->second;
    const bool has_waited = std::ranges::any_of(ranks[i].delays, [&](const Delay& other) {
      return other.op == op && other.is_before && other.ns > tolerance;
    });
    const bool is_alike = ranks[i].body == own.body && op == delay.op;
    ++(has_waited ? waited : is_alike ? came_last_alike : came_last);
  }
  return came_last_alike > 0 || (came_last > 0 && waited > 1);
}

// Returns the delay of an op that could have begun at `ready`, by the first cause that applies.
// `is_first`: no compute of the step comes before it.
Delay delay_before(const RankStep& step, std::uint32_t number, Nanoseconds ready, bool is_first,
                   Nanoseconds pause_ns) {
  const Op& op = step.body.ops[number];
  const Nanoseconds start = step.start_of(number), gap = start - ready;
  Delay delay{.op = number, .kind = DelayKind::Launch, .ns = gap};
  const auto any = [](std::uint32_t) { return true; };
  if (const Op* const comm = awaited(step, number, ready, start, any)) {
    delay.kind = DelayKind::Overlap;
    delay.waited_for = step.body.slots[comm->slot].group_kind;
  } else if (2 * length_of(intersection_of({{ready, start}}, step.measured.copies)) > gap) {
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
// op of the pass needs. The places of ops inside a pass are estimates, so the gap counts from the
// end of the last communication that the pass does need.
std::optional<Delay> overlap_inside(const RankStep& step, const ComputeWaits& waits,
                                    std::uint32_t op, Nanoseconds from, Nanoseconds to) {
  if (to - from <= kTolerance) return std::nullopt;
  const auto is_needed = [&](std::uint32_t comm) {
    return waits.first_waiter[comm] <= waits.last_of_pass[op];
  };
  for (const std::uint32_t comm : step.ending(from, to)) {
    if (is_needed(comm)) from = step.end_of(comm);
  }
  const Op* const comm = awaited(step, op, from, to, std::not_fn(is_needed));
  if (comm == nullptr) return std::nullopt;
  const GroupKind waited_for = step.body.slots[comm->slot].group_kind;
  return Delay{op, DelayKind::Overlap, waited_for, to - from, /*is_before=*/false};
}

// Adds the delays in the gaps between an op's kernels.
void add_inside(const RankStep& step, const ComputeWaits& waits, std::uint32_t op,
                Nanoseconds pause_ns, std::vector<Delay>* delays) {
  Nanoseconds idle_ns = 0, longest_ns = 0;
  for (const auto& [from, to] :
       left_by(step.measured.computing, step.start_of(op), step.end_of(op))) {
    const Intervals idle = left_by(step.measured.active, from, to);
    std::optional<Delay> overlap;
    if (length_of(idle) < to - from) overlap = overlap_inside(step, waits, op, from, to);
    if (overlap) {
      delays->push_back(*overlap);
      continue;
    }
    for (const auto& [begin, end] : idle) {
      idle_ns += end - begin;
      longest_ns = std::max(longest_ns, end - begin);
    }
  }
  if (idle_ns == 0) return;
  const DelayKind kind = longest_ns >= pause_ns ? DelayKind::Pause : DelayKind::Launch;
  delays->push_back({.op = op, .kind = kind, .ns = idle_ns, .is_before = false});
}

}  // namespace

std::vector<Delay> delays_of(const Body& body, const MeasuredStep& step, Nanoseconds begin_ns,
                             Nanoseconds pause_ns) {
  std::vector<Delay> delays;
  const ComputeWaits waits = compute_waits(body);
  const RankStep with_comms = rank_step(body, step);
  const MeasuredOp* before = nullptr;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (!is_compute(body.ops[i].kind)) continue;
    const MeasuredOp& op = step.ops[i];
    const bool is_first = before == nullptr;
    const auto ready = ready_of(body, step, i, before, begin_ns);
    before = &op;
    if (!op.known()) continue;
    if (ready && op.start_ns > *ready)
      delays.push_back(delay_before(with_comms, i, *ready, is_first, pause_ns));
    add_inside(with_comms, waits, i, pause_ns, &delays);
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
      if (ends_at_barrier(rank, delay, *ranks, starts)) delay.kind = DelayKind::Barrier;
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
