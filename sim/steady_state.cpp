// Three claims, each a function: the longer Program has one round more (find_rounds), its rounds
// repeat in time (first_steady), and no op of a steady round waits for one that is further away
// than half of the steady rounds (reach). From these it follows by induction over the ops that
// further rounds repeat too.
#include "sim/steady_state.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"

namespace tandem {
namespace {

// Where a body's ops repeat: those of `begin` on, `ops` a round, up to before `end`.
struct Rounds {
  std::uint32_t begin = 0, ops = 0, end = 0;

  int count() const { return static_cast<int>((end - begin) / ops); }
  // Of an op; those before the first round are in rounds below 0.
  std::int64_t of(std::uint32_t op) const {
    const auto from_begin = static_cast<std::int64_t>(op) - begin;
    return from_begin >= 0 ? from_begin / ops : -1 - (-1 - from_begin) / ops;
  }
};

bool same_but_place(const Op& a, const Op& b) {
  return a.kind == b.kind && a.lane == b.lane && a.slot == b.slot && a.part == b.part &&
         a.parts == b.parts && a.sms == b.sms && a.stage == b.stage && a.way == b.way &&
         a.kernel == b.kernel && a.waits == b.waits && a.bytes == b.bytes &&
         a.duration_ns == b.duration_ns && (a.exchange < 0) == (b.exchange < 0);
}

bool same_op(const Body& longer, const Body& shorter, std::uint32_t op) {
  const Op &a = longer.ops[op], &b = shorter.ops[op];
  return same_but_place(a, b) && a.microbatch == b.microbatch &&
         std::ranges::equal(longer.waits_of(a), shorter.waits_of(b));
}

// Op `op` of the longer body and the one a round before it in the shorter one.
bool same_a_round_later(const Body& longer, const Body& shorter, std::uint32_t op,
                        std::uint32_t round, int microbatches) {
  const Op &a = longer.ops[op], &b = shorter.ops[op - round];
  const bool once = b.microbatch < 0;
  return same_but_place(a, b) && a.microbatch == b.microbatch + (once ? 0 : microbatches) &&
         std::ranges::equal(longer.waits_of(a), shorter.waits_of(b),
                            [&](std::uint32_t later, std::uint32_t earlier) {
                              return later == earlier + round || later == earlier;
                            });
}

// Ops from the front that are the same in both, and those from the back: where they overlap, a
// round may be put in anywhere in between. Nothing where they do not.
std::optional<Rounds> find_rounds(const Body& shorter, const Body& longer, int microbatches) {
  const auto few = static_cast<std::uint32_t>(shorter.ops.size());
  const auto many = static_cast<std::uint32_t>(longer.ops.size());
  if (many <= few || longer.lanes.size() != shorter.lanes.size()) return std::nullopt;
  const std::uint32_t round = many - few;
  std::uint32_t front = 0;
  while (front < few && same_op(longer, shorter, front)) ++front;
  std::uint32_t back = many;
  while (back > round && same_a_round_later(longer, shorter, back - 1, round, microbatches)) --back;
  // Now the shorter's ops from back - round on are the longer's from back on.
  const std::uint32_t begin = back - round, end = front + round;
  if (begin > front) return std::nullopt;
  // What stays in its place while others move lies before them.
  for (std::uint32_t i = back; i < many; ++i) {
    const Op& op = longer.ops[i];
    for (std::uint32_t w = 0; w < op.waits; ++w) {
      const std::uint32_t wait = longer.waits_of(op)[w];
      if (wait == shorter.waits_of(shorter.ops[i - round])[w] && wait >= begin) return std::nullopt;
    }
  }
  return Rounds{begin, round, end};
}

using BodyRounds = std::vector<Rounds>;

std::optional<BodyRounds> find_rounds(const Program& shorter, const Program& longer,
                                      int microbatches) {
  const auto same_rows = [](const RankRow& a, const RankRow& b) {
    return a.body == b.body && a.communicators == b.communicators;
  };
  if (shorter.bodies.size() != longer.bodies.size() ||
      shorter.communicators.size() != longer.communicators.size() ||
      !std::ranges::equal(shorter.ranks, longer.ranks, same_rows))
    return std::nullopt;
  BodyRounds rounds;
  for (std::size_t b = 0; b < longer.bodies.size(); ++b) {
    const auto of = find_rounds(shorter.bodies[b], longer.bodies[b], microbatches);
    if (!of) return std::nullopt;
    rounds.push_back(*of);
  }
  return rounds;
}

bool later_by(const EventTimes& a, const EventTimes& b, Nanoseconds ns) {
  return b.arrive_ns == a.arrive_ns + ns && b.start_ns == a.start_ns + ns &&
         b.end_ns == a.end_ns + ns;
}

// The first round from which to the last that all ranks have each is the one before it, a period
// later; the last itself where none repeats.
int first_steady(const Program& program, const Trace& trace, const BodyRounds& rounds, int count,
                 Nanoseconds period) {
  int first = 0;
  for (const RankTrace& rank : trace.ranks) {
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    const Rounds& of = rounds[rank.body];
    const std::uint32_t begin = of.begin + static_cast<std::uint32_t>(first) * of.ops;
    std::uint32_t i = of.begin + static_cast<std::uint32_t>(count - 1) * of.ops;
    while (i > begin && later_by(events[i - 1], events[i - 1 + of.ops], period)) --i;
    if (i > begin) first = static_cast<int>((i - 1 - of.begin) / of.ops) + 1;
  }
  return first;
}

// What the ops of a body wait for: number 0 is the op before on the lane, the others its waits.
class WaitsOfBody {
 public:
  static constexpr std::int64_t kNone = -1;

  explicit WaitsOfBody(const Body& body) : body_(body) {
    std::vector<std::int64_t> last(body.lanes.size(), kNone);
    before_.reserve(body.ops.size());
    for (std::uint32_t i = 0; i < body.ops.size(); ++i)
      before_.push_back(std::exchange(last[body.ops[i].lane], i));
  }

  std::uint32_t count(std::uint32_t op) const { return 1 + body_.ops[op].waits; }
  std::int64_t of(std::uint32_t op, std::uint32_t number) const {
    return number == 0 ? before_[op] : body_.waits_of(body_.ops[op])[number - 1];
  }

 private:
  const Body& body_;
  std::vector<std::int64_t> before_;
};

// How far the ops of the rounds from `first` on reach, in rounds, to what they wait for and to
// those they communicate with; nothing where an op after them depends on one before. REQUIRES: two
// rounds or more.
class Reach {
 public:
  Reach(const Program& shorter, const Program& program, const Trace& trace, BodyRounds rounds,
        int count)
      : shorter_(shorter),
        program_(program),
        trace_(trace),
        rounds_(std::move(rounds)),
        count_(count) {}

  std::optional<std::int64_t> of() {
    for (const RankTrace& rank : trace_.ranks) waits(rank);
    communication();
    if (!bounded_) return std::nullopt;
    return reach_;
  }

 private:
  // Notes that an op of round `at` waits for one of round `before`.
  void note(std::int64_t at, std::int64_t before) {
    if (at < 0) return;  // before the rounds all stays as it is
    if (at < count_) {
      reach_ = std::max(reach_, at < before ? before - at : at - before);
    } else if (before < 0) {
      bounded_ = false;
    }
  }

  // What an op waits for and its like a round later too, before the rounds, does not matter where
  // something that moves with the op ends no earlier.
  void waits(const RankTrace& rank) {
    const WaitsOfBody waits(program_.bodies[rank.body]), fewer(shorter_.bodies[rank.body]);
    const Rounds& rounds = rounds_[rank.body];
    const std::span<const EventTimes> events = trace_.events_of(program_, rank);
    const auto moves = [&](std::uint32_t op, std::uint32_t number) {
      const std::uint32_t later = op >= rounds.begin + rounds.ops ? op : op + rounds.ops;
      return waits.of(later, number) != fewer.of(later - rounds.ops, number);
    };
    for (std::uint32_t i = rounds.begin; i < events.size(); ++i) {
      Nanoseconds moves_until = -1;
      for (std::uint32_t w = 0; w < waits.count(i); ++w) {
        if (const std::int64_t wait = waits.of(i, w); wait >= rounds.begin)
          moves_until = std::max(moves_until, events[wait].end_ns);
      }
      for (std::uint32_t w = 0; w < waits.count(i); ++w) {
        const std::int64_t wait = waits.of(i, w);
        if (wait == WaitsOfBody::kNone) continue;
        if (wait >= rounds.begin || moves(i, w) || events[wait].end_ns > moves_until)
          note(rounds.of(i), rounds.of(static_cast<std::uint32_t>(wait)));
      }
    }
  }

  // Members of a communicator meet in the order of their ops on it.
  void communication() {
    const RankFolding folding = fold(program_);
    std::vector<std::vector<std::vector<std::uint32_t>>> slots;
    for (const Body& body : program_.bodies) slots.push_back(ops_by_slot(body));
    for (const CommunicatorClass& comm : folding.comm_classes) {
      const auto body_of = [&](const ClassMember& member) {
        return folding.folded_ranks[member.folded_rank].body;
      };
      const ClassMember& one = comm.members.front();
      for (const ClassMember& other : comm.members) {
        const auto& ours = slots[body_of(one)][one.slot];
        const auto& theirs = slots[body_of(other)][other.slot];
        CHECK(ours.size() == theirs.size());
        for (std::size_t n = 0; n < ours.size(); ++n) {
          const std::int64_t at = rounds_[body_of(one)].of(ours[n]);
          const std::int64_t there = rounds_[body_of(other)].of(theirs[n]);
          note(at, there);
          note(there, at);
        }
      }
    }
  }

  const Program& shorter_;
  const Program& program_;
  const Trace& trace_;
  const BodyRounds rounds_;
  const std::int64_t count_;
  std::int64_t reach_ = 0;
  bool bounded_ = true;
};

}  // namespace

PlayedProgram measured(const Program& program, const Trace& trace) {
  Nanoseconds end = 0;
  for (const EventTimes& event : trace.events) end = std::max(end, event.end_ns);
  return {&program, measure(program, trace), end, static_cast<std::int64_t>(trace.events.size())};
}

bool is_steady(const PlayedProgram& shorter, const PlayedProgram& longer, const Trace& of_longer,
               int microbatches) {
  const Program& program = *longer.program;
  auto rounds = find_rounds(*shorter.program, program, microbatches);
  if (!rounds) return false;
  int count = rounds->front().count();
  for (const Rounds& of : *rounds) count = std::min(count, of.count());
  const Nanoseconds period = longer.iteration_ns - shorter.iteration_ns;
  if (period <= 0) return false;
  const int first = first_steady(program, of_longer, *rounds, count, period);
  if (count - first < 2) return false;
  for (Rounds& of : *rounds) of.begin += first * of.ops;
  const auto reach =
      Reach(*shorter.program, program, of_longer, std::move(*rounds), count - first).of();
  return reach && count - first >= 2 * *reach + 1;
}

PlayedProgram with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                          std::int64_t more) {
  const Program &few = *shorter.program, &many = *longer.program;
  const auto further = [more](Nanoseconds a, Nanoseconds b) { return b + more * (b - a); };
  std::vector<RankSplit> splits = longer.metrics.ranks;
  for (std::size_t r = 0; r < splits.size(); ++r) {
    const RankSplit& less = shorter.metrics.ranks[r];
    RankSplit& split = splits[r];
    const auto extend = [&](Nanoseconds RankSplit::*time) {
      split.*time = further(less.*time, split.*time);
    };
    for (const auto time :
         {&RankSplit::compute_ns, &RankSplit::bubble_ns, &RankSplit::window_bubble_ns,
          &RankSplit::exposed_between_nodes_ns, &RankSplit::last_end_ns})
      extend(time);
    for (const auto times : {&RankSplit::exposed_ns, &RankSplit::comm_ns, &RankSplit::overlap_ns}) {
      for (int kind = 0; kind < kGroupKinds; ++kind)
        (split.*times)[kind] = further((less.*times)[kind], (split.*times)[kind]);
    }
    const int body = many.ranks[index(split.rank)].body;
    std::vector<SlotBytes> sent = bytes_by_slot(many.bodies[body]);
    const std::vector<SlotBytes> sent_less = bytes_by_slot(few.bodies[body]);
    for (std::size_t slot = 0; slot < sent.size(); ++slot)
      sent[slot] = {further(sent_less[slot].whole, sent[slot].whole),
                    further(sent_less[slot].in_rings, sent[slot].in_rings)};
    split.sent_bytes = sent_bytes(many, split.rank, sent);
  }
  const Nanoseconds iteration = further(shorter.iteration_ns, longer.iteration_ns);
  return {&many, means_of(std::move(splits), iteration), iteration,
          further(shorter.ops, longer.ops)};
}

}  // namespace tandem
