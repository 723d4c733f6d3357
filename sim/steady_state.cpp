// Proof by induction over the ops. It rests on three claims, each a function here: the longer
// Program has one round more than the shorter one (find_rounds); its rounds repeat in time
// (first_steady); and no op of a steady round waits for one that is further away than half of the
// steady rounds (Reach). Then further rounds repeat too.
//
// A round of a lane is a fixed number of consecutive ops there, which come again in the next round
// for later microbatches. Three rounds of two ops:
//
//   lane:   w w | F0 B0 | F1 B1 | F2 B2 | d d
//               begin                   end         ops = 2, count() = 3
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

// The part of a lane that repeats: from place `begin` up to before `end`, `ops` a round. With `ops`
// 0 nothing repeats: what stands before `begin` comes before all rounds, the rest after them.
struct Rounds {
  std::uint32_t begin = 0, ops = 0, end = 0;

  static constexpr int kAfter = INT32_MAX;
  int count() const { return ops == 0 ? kAfter : static_cast<int>((end - begin) / ops); }
  // Returns the round of a place. Places before the first round are in rounds below 0.
  std::int64_t of(std::uint32_t place) const {
    if (ops == 0) return place < begin ? -1 : kAfter;
    const auto from_begin = static_cast<std::int64_t>(place) - begin;
    return from_begin >= 0 ? from_begin / ops : -1 - (-1 - from_begin) / ops;
  }
};

// The rounds of a body, lane by lane: only the order on each lane decides its times.
struct BodyRounds {
  LaneQueues queues;
  std::vector<Rounds> of_lane;

  const Rounds& at(const Op& op) const { return of_lane[op.lane]; }
  std::int64_t of(const Body& body, std::uint32_t op) const {
    return at(body.ops[op]).of(queues.place[op]);
  }
};

bool same_but_place(const Op& a, const Op& b) {
  return a.kind == b.kind && a.lane == b.lane && a.slot == b.slot && a.part == b.part &&
         a.parts == b.parts && a.sms == b.sms && a.stage == b.stage && a.way == b.way &&
         a.kernel == b.kernel && a.waits == b.waits && a.bytes == b.bytes &&
         a.duration_ns == b.duration_ns && (a.exchange < 0) == (b.exchange < 0);
}

// Finds a body's rounds. On each lane, some ops from the front are equal in both bodies, and some
// from the back are equal but one round later. Where the two parts overlap, a round may be inserted
// at any place in between.
class RoundsOfBody {
 public:
  RoundsOfBody(const Body& shorter, const Body& longer, int microbatches)
      : shorter_(shorter),
        longer_(longer),
        microbatches_(microbatches),
        few_(shorter),
        found_{LaneQueues(longer), std::vector<Rounds>(longer.lanes.size())} {}

  // Returns nothing where they do not overlap.
  std::optional<BodyRounds> find() {
    if (longer_.ops.size() <= shorter_.ops.size() || few_.lanes.size() != found_.of_lane.size())
      return std::nullopt;
    for (std::size_t lane = 0; lane < few_.lanes.size(); ++lane) {
      if (many(lane).size() < few(lane).size()) return std::nullopt;
      found_.of_lane[lane].ops = static_cast<std::uint32_t>(many(lane).size() - few(lane).size());
    }
    for (std::size_t lane = 0; lane < few_.lanes.size(); ++lane) {
      if (!find_on(lane)) return std::nullopt;
    }
    if (!fixed_waits_precede_rounds()) return std::nullopt;
    return std::move(found_);
  }

 private:
  using Queue = std::vector<std::uint32_t>;
  const Queue& few(std::size_t lane) const { return few_.lanes[lane]; }
  const Queue& many(std::size_t lane) const { return found_.queues.lanes[lane]; }

  bool find_on(std::size_t lane) {
    Rounds& rounds = found_.of_lane[lane];
    const auto most = static_cast<std::uint32_t>(few(lane).size());
    std::uint32_t front = 0;
    while (front < most && same(many(lane)[front], few(lane)[front], 0)) ++front;
    std::uint32_t begin = most;
    while (begin > 0 &&
           same(many(lane)[begin - 1 + rounds.ops], few(lane)[begin - 1], microbatches_))
      --begin;
    rounds.begin = begin;
    rounds.end = front + rounds.ops;
    return begin <= front;
  }

  // Returns whether op `a` of the longer body is op `b` of the shorter one, `later` microbatches
  // on. What it waits for on other lanes is at the same place in both or, if `later` > 0, may also
  // be one round later. Waits on its own lane need no check: those ops have ended before it.
  bool same(std::uint32_t a, std::uint32_t b, int later) const {
    const Op &there = longer_.ops[a], &here = shorter_.ops[b];
    const int microbatch = here.microbatch < 0 ? 0 : later;
    if (!same_but_place(there, here) || there.microbatch != here.microbatch + microbatch)
      return false;
    return std::ranges::equal(longer_.waits_of(there), shorter_.waits_of(here),
                              [&](std::uint32_t wait, std::uint32_t before) {
                                const std::uint8_t lane = longer_.ops[wait].lane;
                                if (lane != shorter_.ops[before].lane) return false;
                                if (lane == there.lane) return true;
                                const std::uint32_t moves = place(wait) - few_.place[before];
                                return moves == 0 ||
                                       (later > 0 && moves == found_.of_lane[lane].ops);
                              });
  }

  // Checks ops that move by a round: if one waits for an op that keeps its place, that op must lie
  // before its own lane's rounds.
  bool fixed_waits_precede_rounds() const {
    for (std::size_t lane = 0; lane < few_.lanes.size(); ++lane) {
      const Rounds& rounds = found_.of_lane[lane];
      for (std::uint32_t i = rounds.begin; i < few(lane).size(); ++i) {
        const std::span waits = longer_.waits_of(longer_.ops[many(lane)[i + rounds.ops]]);
        const std::span before = shorter_.waits_of(shorter_.ops[few(lane)[i]]);
        for (std::size_t w = 0; w < waits.size(); ++w) {
          if (longer_.ops[waits[w]].lane == lane) continue;
          const Rounds& there = found_.at(longer_.ops[waits[w]]);
          if (there.ops > 0 && place(waits[w]) == few_.place[before[w]] &&
              place(waits[w]) >= there.begin)
            return false;
        }
      }
    }
    return true;
  }

  std::uint32_t place(std::uint32_t op) const { return found_.queues.place[op]; }

  const Body& shorter_;
  const Body& longer_;
  const int microbatches_;
  const LaneQueues few_;
  BodyRounds found_;
};

std::optional<std::vector<BodyRounds>> find_rounds(const Program& shorter, const Program& longer,
                                                   int microbatches) {
  const auto same_rows = [](const RankRow& a, const RankRow& b) {
    return a.body == b.body && a.communicators == b.communicators;
  };
  if (shorter.bodies.size() != longer.bodies.size() ||
      shorter.communicators.size() != longer.communicators.size() ||
      !std::ranges::equal(shorter.ranks, longer.ranks, same_rows))
    return std::nullopt;
  std::vector<BodyRounds> rounds;
  for (std::size_t b = 0; b < longer.bodies.size(); ++b) {
    auto of = RoundsOfBody(shorter.bodies[b], longer.bodies[b], microbatches).find();
    if (!of) return std::nullopt;
    rounds.push_back(*std::move(of));
  }
  return rounds;
}

// Makes the rounds of all lanes begin at about the same time, when the last lane's do, so that
// rounds of one number lie beside each other. A lane whose rounds end too early begins as late as
// it can. Returns how many rounds all lanes have.
int align(const Program& program, const Trace& trace, std::vector<BodyRounds>* rounds) {
  const auto each_lane = [&](const auto& visit) {
    for (const RankTrace& rank : trace.ranks) {
      const std::span<const EventTimes> events = trace.events_of(program, rank);
      BodyRounds& body = (*rounds)[rank.body];
      for (std::size_t lane = 0; lane < body.of_lane.size(); ++lane) {
        const auto start_ns = [&](std::uint32_t op) { return events[op].start_ns; };
        visit(body.queues.lanes[lane], start_ns, &body.of_lane[lane]);
      }
    }
  };
  Nanoseconds begin_ns = 0;
  each_lane([&](const auto& ops, const auto& start_ns, const Rounds* of) {
    if (of->ops > 0) begin_ns = std::max(begin_ns, start_ns(ops[of->begin]));
  });
  int count = Rounds::kAfter;
  each_lane([&](const auto& ops, const auto& start_ns, Rounds* of) {
    const auto at = std::ranges::lower_bound(ops, begin_ns, {}, start_ns) - ops.begin();
    of->begin = std::clamp(static_cast<std::uint32_t>(at), of->begin, of->end - of->ops);
    count = std::min(count, of->count());
  });
  return count;
}

bool later_by(const EventTimes& a, const EventTimes& b, Nanoseconds ns) {
  return b.arrive_ns == a.arrive_ns + ns && b.start_ns == a.start_ns + ns &&
         b.end_ns == a.end_ns + ns;
}

// Returns the first round from which on, up to the last one that all ranks have, each is the one
// before it plus one period; the last one itself where none repeats.
int first_steady(const Program& program, const Trace& trace, const std::vector<BodyRounds>& rounds,
                 int count, Nanoseconds period) {
  int first = 0;
  for (const RankTrace& rank : trace.ranks) {
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    for (std::size_t lane = 0; lane < rounds[rank.body].of_lane.size(); ++lane) {
      const Rounds& of = rounds[rank.body].of_lane[lane];
      if (of.ops == 0) continue;
      const std::vector<std::uint32_t>& ops = rounds[rank.body].queues.lanes[lane];
      const std::uint32_t begin = of.begin + static_cast<std::uint32_t>(first) * of.ops;
      std::uint32_t i = of.begin + static_cast<std::uint32_t>(count - 1) * of.ops;
      while (i > begin && later_by(events[ops[i - 1]], events[ops[i - 1 + of.ops]], period)) --i;
      if (i > begin) first = static_cast<int>((i - 1 - of.begin) / of.ops) + 1;
    }
  }
  return first;
}

// Returns what the op at `place` of a lane waits for: number 0 is the op before it on its lane, the
// others are its waits. Returns -1 for none, and for a wait on its own lane.
std::int64_t wait_of(const Body& body, const LaneQueues& queues, std::size_t lane,
                     std::uint32_t place, std::uint32_t number) {
  const std::vector<std::uint32_t>& ops = queues.lanes[lane];
  if (number == 0) return place > 0 ? std::int64_t{ops[place - 1]} : -1;
  const std::uint32_t wait = body.waits_of(body.ops[ops[place]])[number - 1];
  return body.ops[wait].lane == lane ? -1 : std::int64_t{wait};
}

// Computes how many rounds lie at most between an op of the rounds and what it waits for or
// communicates with. There is no bound if an op after the rounds depends on one before them.
// REQUIRES: two rounds or more.
class Reach {
 public:
  Reach(const Program& shorter, const Program& program, const Trace& trace,
        const std::vector<BodyRounds>& rounds, int count)
      : shorter_(shorter), program_(program), trace_(trace), rounds_(rounds), count_(count) {}

  std::optional<std::int64_t> of() {
    for (const RankTrace& rank : trace_.ranks) {
      const LaneQueues fewer(shorter_.bodies[rank.body]);
      for (std::size_t lane = 0; lane < fewer.lanes.size(); ++lane) waits(rank, lane, fewer);
    }
    communication();
    if (!bounded_) return std::nullopt;
    return reach_;
  }

 private:
  // Notes that an op of round `at` depends on one of round `before`.
  void note(std::int64_t at, std::int64_t before) {
    if (at < 0) return;  // before the rounds all stays as it is
    if (at < count_) {
      reach_ = std::max(reach_, at < before ? before - at : at - before);
    } else if (before < 0) {
      bounded_ = false;
    }
  }

  // Notes the waits of a lane's ops. One kind of wait may be left out: for an op before the rounds
  // that keeps its place when a round is added. It does not matter if something else that the op
  // waits for, and that moves with it, ends no earlier.
  void waits(const RankTrace& rank, std::size_t lane, const LaneQueues& fewer) {
    const Body &body = program_.bodies[rank.body], &shorter = shorter_.bodies[rank.body];
    const BodyRounds& in = rounds_[rank.body];
    const Rounds& rounds = in.of_lane[lane];
    const std::span<const EventTimes> events = trace_.events_of(program_, rank);
    const std::vector<std::uint32_t>& ops = in.queues.lanes[lane];
    for (std::uint32_t i = rounds.begin; i < ops.size(); ++i) {
      const std::uint32_t later = i >= rounds.begin + rounds.ops ? i : i + rounds.ops;
      const std::uint32_t count = 1 + body.ops[ops[i]].waits;
      Nanoseconds moves_until = -1;
      for (std::uint32_t w = 0; w < count; ++w) {
        const std::int64_t wait = wait_of(body, in.queues, lane, i, w);
        if (wait >= 0 && in.of(body, wait) >= 0)
          moves_until = std::max(moves_until, events[wait].end_ns);
      }
      for (std::uint32_t w = 0; w < count; ++w) {
        const std::int64_t wait = wait_of(body, in.queues, lane, i, w);
        if (wait < 0) continue;
        const std::int64_t before = in.of(body, wait);
        const auto moves = [&] {
          const std::int64_t there = wait_of(body, in.queues, lane, later, w);
          const std::int64_t here = wait_of(shorter, fewer, lane, later - rounds.ops, w);
          return there < 0 || here < 0 || in.queues.place[there] != fewer.place[here];
        };
        if (before >= 0 || moves() || events[wait].end_ns > moves_until) note(rounds.of(i), before);
      }
    }
  }

  // Notes the members of each communicator: they meet in the order of their ops on it.
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
          const std::int64_t at = round_of(body_of(one), ours[n]);
          const std::int64_t there = round_of(body_of(other), theirs[n]);
          note(at, there);
          note(there, at);
        }
      }
    }
  }

  std::int64_t round_of(int body, std::uint32_t op) const {
    return rounds_[body].of(program_.bodies[body], op);
  }

  const Program& shorter_;
  const Program& program_;
  const Trace& trace_;
  const std::vector<BodyRounds>& rounds_;
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
  const int count = align(program, of_longer, &*rounds);
  const Nanoseconds period = longer.iteration_ns - shorter.iteration_ns;
  if (period <= 0) return false;
  const int first = first_steady(program, of_longer, *rounds, count, period);
  if (count - first < 2) return false;
  for (BodyRounds& of : *rounds) {
    for (Rounds& lane : of.of_lane) lane.begin += first * lane.ops;
  }
  const auto reach = Reach(*shorter.program, program, of_longer, *rounds, count - first).of();
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
