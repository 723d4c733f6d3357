// Splits every rank's iteration into compute, exposed communication and bubble by one sweep over
// its ops, and takes means over ranks. A gap is a stretch in which the compute lane idles. For each
// gap a walk back over waits, from the compute op after it, finds the communications that it waited
// for.
#include "traces/metrics.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "schedule/program/nearly_sorted.h"

namespace tandem {
namespace {

// The instants from begin to just before end.
struct TimeSpan {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

// A rank's view: its events, and the iteration of all ranks.
struct RankView {
  const Program& program;
  const Body& body;
  const RankRow& row;
  std::span<const EventTimes> events;
  TimeSpan iteration;
};

// Buffers shared by all ranks, so that a million events cost a handful of allocations.
struct Scratch {
  int body = -1;                          // whose `before` and `bytes` are in here
  std::vector<SlotBytes> bytes;           // by slot
  std::vector<std::int32_t> before;       // per op, the op before it on its lane; -1: none
  std::vector<std::uint32_t> seen_epoch;  // per op, the last gap that saw it
  std::uint32_t epoch = 0;                // the gap at hand
  std::vector<std::uint32_t> waited_for;  // communications that this gap waits for, directly or not
  std::vector<TimeSpan> compute;
  std::array<std::vector<TimeSpan>, kGroupKinds> comm;
  std::vector<SplitSpan>* spans = nullptr;  // where to note the split's stretches, or null
};

void find_ops_before(const Body& body, std::vector<std::int32_t>* before) {
  std::array<std::int32_t, std::numeric_limits<std::uint8_t>::max() + 1> last;
  last.fill(-1);
  before->resize(body.ops.size());
  for (std::size_t i = 0; i < body.ops.size(); ++i)
    (*before)[i] = std::exchange(last[body.ops[i].lane], static_cast<std::int32_t>(i));
}

void start_gap(Scratch* scratch) {
  ++scratch->epoch;
  scratch->waited_for.clear();
}

// Notes an op that the gap's next op waits for, if it is a communication in flight.
// - Communication that ended before the gap is left out, and so is what it waited for. So each
//   event is seen by one gap, the one in which it ends, and the walk takes linear time.
// - Compute is left out: the compute lane idles in the gap, so all compute that is waited for ended
//   before the gap.
void note_in_flight(const RankView& view, Nanoseconds gap_begin, std::uint32_t op,
                    Scratch* scratch) {
  if (is_compute(view.body.ops[op].kind)) return;
  if (view.events[op].end_ns <= gap_begin) return;
  if (std::exchange(scratch->seen_epoch[op], scratch->epoch) == scratch->epoch) return;
  scratch->waited_for.push_back(op);
}

// Notes all that `op` waits for directly: its waits, and the op before it on its lane.
void note_waits_of(const RankView& view, Nanoseconds gap_begin, std::size_t op, Scratch* scratch) {
  for (const std::uint32_t wait : view.body.waits_of(view.body.ops[op]))
    note_in_flight(view, gap_begin, wait, scratch);
  if (const std::int32_t before = scratch->before[op]; before >= 0)
    note_in_flight(view, gap_begin, static_cast<std::uint32_t>(before), scratch);
}

// Notes a stretch of the split, if split_spans() asked for them.
void note_span(const RankView& view, TimeSpan time, SplitSpan span, Scratch* scratch) {
  if (scratch->spans == nullptr) return;
  span.begin_ns = time.begin - view.iteration.begin;
  span.end_ns = time.end - view.iteration.begin;
  scratch->spans->push_back(span);
}

// Gives the gap's instants to the communications in scratch->waited_for, and returns the time that
// is left, which is bubble. Goes through them by falling end, and by lane where ends are equal.
// Each gets those of its instants that lie before the starts of all communications ahead of it.
Nanoseconds attribute(const RankView& view, TimeSpan gap, Scratch* scratch, RankSplit* split) {
  std::vector<std::uint32_t>& ops = scratch->waited_for;
  std::sort(ops.begin(), ops.end(), [&view](std::uint32_t a, std::uint32_t b) {
    const Nanoseconds end_a = view.events[a].end_ns;
    const Nanoseconds end_b = view.events[b].end_ns;
    if (end_a != end_b) return end_a > end_b;
    const std::uint8_t lane_a = view.body.ops[a].lane, lane_b = view.body.ops[b].lane;
    return lane_a != lane_b ? lane_a < lane_b : a < b;
  });
  Nanoseconds bubble = gap.end - gap.begin;
  Nanoseconds taken_from = gap.end;
  for (const std::uint32_t op : ops) {
    const Nanoseconds begin = std::max(view.events[op].start_ns, gap.begin);
    const Nanoseconds end = std::min(view.events[op].end_ns, taken_from);
    if (begin >= end) continue;
    const std::int16_t slot = view.body.ops[op].slot;
    const GroupKind group_kind = view.body.slots[slot].group_kind;
    split->exposed_ns[static_cast<int>(group_kind)] += end - begin;
    note_span(view, {begin, end}, {.exposed = true, .group_kind = group_kind}, scratch);
    if (view.program.communicators[view.row.communicators[slot]].between_nodes)
      split->exposed_between_nodes_ns += end - begin;
    bubble -= end - begin;
    taken_from = begin;
  }
  return bubble;
}

// Returns the bubble in a gap before compute op `next`.
Nanoseconds bubble_before(const RankView& view, TimeSpan gap, std::size_t next, Scratch* scratch,
                          RankSplit* split) {
  start_gap(scratch);
  note_waits_of(view, gap.begin, next, scratch);
  for (std::size_t i = 0; i < scratch->waited_for.size(); ++i)  // it grows as it is walked
    note_waits_of(view, gap.begin, scratch->waited_for[i], scratch);
  return attribute(view, gap, scratch, split);
}

// Returns the bubble after the last compute op: the iteration's end waits for all ops.
Nanoseconds bubble_after_last(const RankView& view, TimeSpan tail, Scratch* scratch,
                              RankSplit* split) {
  start_gap(scratch);
  for (std::uint32_t i = 0; i < view.events.size(); ++i)
    note_in_flight(view, tail.begin, i, scratch);
  return attribute(view, tail, scratch, split);
}

// Adds a compute op and the gap before it to the split. Returns until when the rank then computes.
Nanoseconds add_compute(const RankView& view, Nanoseconds busy_until, std::size_t op,
                        Scratch* scratch, RankSplit* split) {
  const EventTimes& event = view.events[op];
  if (busy_until < event.start_ns) {
    const Nanoseconds bubble =
        bubble_before(view, {busy_until, event.start_ns}, op, scratch, split);
    split->bubble_ns += bubble;
    const bool is_in_window = !scratch->compute.empty();
    if (is_in_window) split->window_bubble_ns += bubble;
  }
  // Measured events may overlap by a tick of their clock: no instant counts twice.
  const Nanoseconds begin = std::max(busy_until, event.start_ns);
  const TimeSpan busy{begin, std::max(begin, event.end_ns)};
  scratch->compute.push_back(busy);
  note_span(view, busy, {.kind = view.body.ops[op].kind}, scratch);
  split->compute_ns += busy.end - busy.begin;
  return busy.end;
}

// Walks the ops once: notes compute and communication in the scratch, and splits the gaps.
void split_iteration(const RankView& view, Scratch* scratch, RankSplit* split) {
  Nanoseconds busy_until = view.iteration.begin;
  for (std::size_t i = 0; i < view.events.size(); ++i) {
    const Op& op = view.body.ops[i];
    const EventTimes& event = view.events[i];
    if (is_compute(op.kind)) {
      CHECK(op.lane == 0);
      busy_until = add_compute(view, busy_until, i, scratch, split);
    } else if (event.start_ns < event.end_ns) {
      const int group_kind = static_cast<int>(view.body.slots[op.slot].group_kind);
      scratch->comm[group_kind].push_back({event.start_ns, event.end_ns});
    }
  }
  if (!scratch->compute.empty()) {
    split->first_start_ns = scratch->compute.front().begin;
    split->last_end_ns = busy_until;
  }
  if (busy_until < view.iteration.end)
    split->bubble_ns += bubble_after_last(view, {busy_until, view.iteration.end}, scratch, split);
}

// Adds the length of the union of `comm` to `comm_ns`, and how much of it lies in `compute` to
// `overlap_ns`. REQUIRES: the intervals of `compute` are disjoint and in order.
void measure_overlap(std::vector<TimeSpan>* comm, std::span<const TimeSpan> compute,
                     Nanoseconds* comm_ns, Nanoseconds* overlap_ns) {
  sort_nearly_sorted(comm, &TimeSpan::begin);
  Nanoseconds covered_until = std::numeric_limits<Nanoseconds>::min();
  std::size_t at = 0;
  for (const TimeSpan& interval : *comm) {
    const Nanoseconds begin = std::max(interval.begin, covered_until);
    if (begin >= interval.end) continue;
    covered_until = interval.end;
    *comm_ns += interval.end - begin;
    while (at < compute.size() && compute[at].end <= begin) ++at;
    for (std::size_t i = at; i < compute.size() && compute[i].begin < interval.end; ++i)
      *overlap_ns += std::min(compute[i].end, interval.end) - std::max(compute[i].begin, begin);
  }
}

RankSplit measure_rank(const RankView& view, Scratch* scratch) {
  scratch->compute.clear();
  for (std::vector<TimeSpan>& intervals : scratch->comm) intervals.clear();
  if (scratch->seen_epoch.size() < view.events.size())
    scratch->seen_epoch.resize(view.events.size(), 0);

  RankSplit split;
  split_iteration(view, scratch, &split);
  Nanoseconds sum = split.compute_ns + split.bubble_ns;
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    measure_overlap(&scratch->comm[group_kind], scratch->compute, &split.comm_ns[group_kind],
                    &split.overlap_ns[group_kind]);
    sum += split.exposed_ns[group_kind];
  }
  CHECK(sum == view.iteration.end - view.iteration.begin);
  return split;
}

TimeSpan iteration_of(const Program& program, const Trace& trace) {
  TimeSpan iteration{std::numeric_limits<Nanoseconds>::max(), 0};
  for (const RankTrace& rank : trace.ranks) {
    CHECK(rank.first + program.bodies[rank.body].ops.size() <= trace.events.size());
    for (const EventTimes& event : trace.events_of(program, rank)) {
      CHECK(0 <= event.start_ns && event.start_ns <= event.end_ns);
      iteration.begin = std::min(iteration.begin, event.start_ns);
      iteration.end = std::max(iteration.end, event.end_ns);
    }
  }
  return iteration.begin <= iteration.end ? iteration : TimeSpan{};
}

// Returns the rank's view, and prepares the scratch for its body.
RankView view_of(const Program& program, const Trace& trace, const RankTrace& rank,
                 TimeSpan iteration, Scratch* scratch) {
  const Body& body = program.bodies[rank.body];
  if (std::exchange(scratch->body, rank.body) != rank.body) {
    find_ops_before(body, &scratch->before);
    scratch->bytes = bytes_by_slot(body);
  }
  return {program, body, program.ranks[index(rank.rank)], trace.events_of(program, rank),
          iteration};
}

std::vector<RankSplit> split_all(const Program& program, const Trace& trace, TimeSpan iteration) {
  std::vector<RankSplit> splits;
  splits.reserve(trace.ranks.size());
  Scratch scratch;
  for (const RankTrace& rank : trace.ranks) {
    splits.push_back(measure_rank(view_of(program, trace, rank, iteration, &scratch), &scratch));
    splits.back().rank = rank.rank;
    splits.back().multiplicity = rank.multiplicity;
    splits.back().sent_bytes = sent_bytes(program, rank.rank, scratch.bytes);
  }
  return splits;
}

double ratio(Nanoseconds part, Nanoseconds whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

SplitSpans split_spans(const Program& program, const Trace& trace,
                       std::span<const std::size_t> ranks) {
  const TimeSpan iteration = iteration_of(program, trace);
  SplitSpans spans{iteration.end - iteration.begin, {}};
  Scratch scratch;
  for (const std::size_t rank : ranks) {
    std::vector<SplitSpan> own;
    scratch.spans = &own;
    measure_rank(view_of(program, trace, trace.ranks[rank], iteration, &scratch), &scratch);
    spans.ranks.push_back(std::move(own));
  }
  return spans;
}

Metrics measure(const Program& program, const Trace& trace) {
  const TimeSpan iteration = iteration_of(program, trace);
  return means_of(split_all(program, trace, iteration), iteration.end - iteration.begin);
}

std::vector<RankSplit> split_ranks(const Program& program, const Trace& trace,
                                   Nanoseconds iteration_ns) {
  return split_all(program, trace, {0, iteration_ns});
}

std::vector<SlotBytes> bytes_by_slot(const Body& body) {
  std::vector<SlotBytes> slots(body.slots.size());
  for (const Op& op : body.ops) {
    if (is_compute(op.kind) || op.kind == OpKind::Recv) continue;
    SlotBytes& slot = slots[op.slot];
    if (op.kind == OpKind::Send || op.kind == OpKind::RingShift) {
      slot.whole += op.bytes;
    } else {
      slot.in_rings += (op.kind == OpKind::AllReduce ? 2 : 1) * op.bytes;
    }
  }
  return slots;
}

ByGroupKind sent_bytes(const Program& program, Rank rank, std::span<const SlotBytes> by_slot) {
  const RankRow& row = program.ranks[index(rank)];
  ByGroupKind sent{};
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    const auto n =
        static_cast<double>(program.communicators[row.communicators[slot]].members.size());
    const GroupKind kind = program.bodies[row.body].slots[slot].group_kind;
    sent[static_cast<int>(kind)] += static_cast<double>(by_slot[slot].whole) +
                                    static_cast<double>(by_slot[slot].in_rings) * ((n - 1) / n);
  }
  return sent;
}

Metrics means_of(std::vector<RankSplit> splits, Nanoseconds iteration_ns) {
  Metrics metrics;
  metrics.iteration_s = to_seconds(iteration_ns);
  metrics.ranks = std::move(splits);
  double ranks = 0;
  for (const RankSplit& split : metrics.ranks) ranks += split.multiplicity;
  std::array<double, kGroupKinds> ranks_with{};
  ByGroupKind overlap{};
  for (const RankSplit& split : metrics.ranks) {
    const double count = split.multiplicity;
    const double weight = count / ranks;
    const double window = ratio(split.window_bubble_ns, split.last_end_ns - split.first_start_ns);
    metrics.compute_s += weight * to_seconds(split.compute_ns);
    metrics.bubble_s += weight * to_seconds(split.bubble_ns);
    metrics.bubble_ratio += weight * ratio(split.bubble_ns, split.compute_ns);
    metrics.bubble_fraction += weight * ratio(split.bubble_ns, iteration_ns);
    metrics.bubble_window_fraction += weight * window;
    metrics.bubble_window_fraction_max = std::max(metrics.bubble_window_fraction_max, window);
    metrics.exposed_between_nodes_s += weight * to_seconds(split.exposed_between_nodes_ns);
    for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
      metrics.exposed_s[group_kind] += weight * to_seconds(split.exposed_ns[group_kind]);
      metrics.comm_s[group_kind] += weight * to_seconds(split.comm_ns[group_kind]);
      metrics.sent_bytes[group_kind] += weight * split.sent_bytes[group_kind];
      if (split.comm_ns[group_kind] == 0) continue;
      ranks_with[group_kind] += count;
      overlap[group_kind] += count * ratio(split.overlap_ns[group_kind], split.comm_ns[group_kind]);
    }
  }
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    if (ranks_with[group_kind] > 0)
      metrics.overlap_fraction[group_kind] = overlap[group_kind] / ranks_with[group_kind];
  }
  return metrics;
}

}  // namespace tandem
