// Rounds may be added to a played Program without a replay if three claims hold, each a function or
// class here: the longer Program has one round more than the shorter one (find_rounds); its rounds
// repeat in time (first_steady); and no op of a steady round depends on an op that is further away
// than half of the steady rounds (Reach). Further rounds then repeat, too, by induction.
//
// A round of a lane is a fixed number of consecutive ops there, which come again in the next round
// for later microbatches. When a round is inserted, an op before it stays: it keeps its place on
// its lane. An op behind it moves: by one round, to a place `ops` later. Three rounds of two ops:
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

// Places [begin, end) of a lane hold whole rounds of `ops` ops. ops == 0: no rounds; places < begin
// come before all rounds, the others after.
struct Rounds {
  std::uint32_t begin = 0, ops = 0, end = 0;

  static constexpr int kAfter = INT32_MAX;
  int count() const { return ops == 0 ? kAfter : static_cast<int>((end - begin) / ops); }
  // Returns the round of a place. Places before the first round are in rounds below 0.
  std::int64_t round_of_place(std::uint32_t place) const {
    if (ops == 0) return place < begin ? -1 : kAfter;
    const auto from_begin = static_cast<std::int64_t>(place) - begin;
    return from_begin >= 0 ? from_begin / ops : -1 - (-1 - from_begin) / ops;
  }
};

// The rounds of a body. Rounds are counted per lane: an op's number in the body has no influence on
// its times.
struct BodyRounds {
  LaneQueues queues;
  std::vector<Rounds> of_lane;

  const Rounds& lane_of(const Op& op) const { return of_lane[op.lane]; }
  std::int64_t round_of_op(const Body& body, std::uint32_t op) const {
    return lane_of(body.ops[op]).round_of_place(queues.place[op]);
  }
};

bool same_but_place(const Op& a, const Op& b) {
  return a.kind == b.kind && a.lane == b.lane && a.slot == b.slot && a.part == b.part &&
         a.parts == b.parts && a.sms == b.sms && a.stage == b.stage && a.way == b.way &&
         a.kernel == b.kernel && a.waits == b.waits && a.bytes == b.bytes &&
         a.duration_ns == b.duration_ns && (a.exchange < 0) == (b.exchange < 0);
}

// Finds a body's rounds. On each lane, the longest equal prefix of both bodies has the ops that
// stay. The longest suffix that is equal but `microbatches` later has the ops that move. If the two
// overlap, a round may have been inserted anywhere there. With one microbatch a round:
//
//   shorter  w F0 B0 F1 B1 d          w F0 B0 F1 B1 stay
//   longer   w F0 B0 F1 B1 F2 B2 d    F0 B0 F1 B1 d move: there they are F1 B1 F2 B2 d
//   rounds     F0 B0|F1 B1|F2 B2
class RoundsOfBody {
 public:
  RoundsOfBody(const Body& shorter, const Body& longer, int microbatches)
      : shorter_(shorter),
        longer_(longer),
        microbatches_(microbatches),
        shorter_queues_(shorter),
        found_{LaneQueues(longer), std::vector<Rounds>(longer.lanes.size())} {}

  // Returns nothing where, on some lane, the prefix and the suffix do not overlap.
  std::optional<BodyRounds> find() {
    if (longer_.ops.size() <= shorter_.ops.size() ||
        shorter_queues_.lanes.size() != found_.of_lane.size())
      return std::nullopt;
    for (std::size_t lane = 0; lane < shorter_queues_.lanes.size(); ++lane) {
      if (longer_lane(lane).size() < shorter_lane(lane).size()) return std::nullopt;
      found_.of_lane[lane].ops =
          static_cast<std::uint32_t>(longer_lane(lane).size() - shorter_lane(lane).size());
    }
    for (std::size_t lane = 0; lane < shorter_queues_.lanes.size(); ++lane) {
      if (!find_on(lane)) return std::nullopt;
    }
    if (!fixed_waits_precede_rounds()) return std::nullopt;
    return std::move(found_);
  }

 private:
  using Queue = std::vector<std::uint32_t>;
  const Queue& shorter_lane(std::size_t lane) const { return shorter_queues_.lanes[lane]; }
  const Queue& longer_lane(std::size_t lane) const { return found_.queues.lanes[lane]; }

  // Finds a lane's rounds. The ops before `front` stay, those from `begin` on move.
  bool find_on(std::size_t lane) {
    Rounds& rounds = found_.of_lane[lane];
    const auto most = static_cast<std::uint32_t>(shorter_lane(lane).size());
    std::uint32_t front = 0;
    while (front < most && same(longer_lane(lane)[front], shorter_lane(lane)[front], 0)) ++front;
    std::uint32_t begin = most;
    while (begin > 0 && same(longer_lane(lane)[begin - 1 + rounds.ops],
                             shorter_lane(lane)[begin - 1], microbatches_))
      --begin;
    rounds.begin = begin;
    rounds.end = front + rounds.ops;
    return begin <= front;
  }

  // Returns whether op `in_longer` is the same as `in_shorter`, `later` microbatches on. Each wait
  // on another lane must be at the same place, or (if later > 0) exactly one round later. Waits on
  // its own lane need no check: those ops have ended before it.
  bool same(std::uint32_t in_longer, std::uint32_t in_shorter, int later) const {
    const Op &longer = longer_.ops[in_longer], &shorter = shorter_.ops[in_shorter];
    const int microbatches = shorter.microbatch < 0 ? 0 : later;
    if (!same_but_place(longer, shorter) || longer.microbatch != shorter.microbatch + microbatches)
      return false;
    return std::ranges::equal(
        longer_.waits_of(longer), shorter_.waits_of(shorter),
        [&](std::uint32_t wait, std::uint32_t before) {
          const std::uint8_t lane = longer_.ops[wait].lane;
          if (lane != shorter_.ops[before].lane) return false;
          if (lane == longer.lane) return true;
          const std::uint32_t moves = place(wait) - shorter_queues_.place[before];
          return moves == 0 || (later > 0 && moves == found_.of_lane[lane].ops);
        });
  }

  // Returns whether every op that stays, and that an op that moves waits for, lies before the
  // rounds of its own lane (as a gather before all passes does) or on a lane without rounds.
  bool fixed_waits_precede_rounds() const {
    for (std::size_t lane = 0; lane < shorter_queues_.lanes.size(); ++lane) {
      const Rounds& rounds = found_.of_lane[lane];
      for (std::uint32_t i = rounds.begin; i < shorter_lane(lane).size(); ++i) {
        const std::span waits = longer_.waits_of(longer_.ops[longer_lane(lane)[i + rounds.ops]]);
        const std::span before = shorter_.waits_of(shorter_.ops[shorter_lane(lane)[i]]);
        for (std::size_t w = 0; w < waits.size(); ++w) {
          if (longer_.ops[waits[w]].lane == lane) continue;
          const Rounds& waited = found_.lane_of(longer_.ops[waits[w]]);
          if (waited.ops > 0 && place(waits[w]) == shorter_queues_.place[before[w]] &&
              place(waits[w]) >= waited.begin)
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
  const LaneQueues shorter_queues_;
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
    auto found = RoundsOfBody(shorter.bodies[b], longer.bodies[b], microbatches).find();
    if (!found) return std::nullopt;
    rounds.push_back(*std::move(found));
  }
  return rounds;
}

// Moves each lane's `begin` on to the time at which the last of all lanes begins its rounds, so
// that rounds of the same number lie beside each other in time. Leaves each lane one round at
// least. Returns the fewest rounds of any lane.
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
  each_lane([&](const auto& ops, const auto& start_ns, const Rounds* lane) {
    if (lane->ops > 0) begin_ns = std::max(begin_ns, start_ns(ops[lane->begin]));
  });
  int count = Rounds::kAfter;
  each_lane([&](const auto& ops, const auto& start_ns, Rounds* lane) {
    const auto first = std::ranges::lower_bound(ops, begin_ns, {}, start_ns) - ops.begin();
    lane->begin = std::clamp(static_cast<std::uint32_t>(first), lane->begin, lane->end - lane->ops);
    count = std::min(count, lane->count());
  });
  return count;
}

bool later_by(const EventTimes& a, const EventTimes& b, Nanoseconds ns) {
  return b.arrive_ns == a.arrive_ns + ns && b.start_ns == a.start_ns + ns &&
         b.end_ns == a.end_ns + ns;
}

// Returns the smallest r such that every op of rounds r ... count-2 is repeated by the next round
// exactly one period (in ns) later. Returns count-1 if there is no such r.
int first_steady(const Program& program, const Trace& trace, const std::vector<BodyRounds>& rounds,
                 int count, Nanoseconds period) {
  int first = 0;
  for (const RankTrace& rank : trace.ranks) {
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    for (std::size_t lane = 0; lane < rounds[rank.body].of_lane.size(); ++lane) {
      const Rounds& lane_rounds = rounds[rank.body].of_lane[lane];
      if (lane_rounds.ops == 0) continue;
      const std::vector<std::uint32_t>& ops = rounds[rank.body].queues.lanes[lane];
      const std::uint32_t begin =
          lane_rounds.begin + static_cast<std::uint32_t>(first) * lane_rounds.ops;
      std::uint32_t i = lane_rounds.begin + static_cast<std::uint32_t>(count - 1) * lane_rounds.ops;
      while (i > begin &&
             later_by(events[ops[i - 1]], events[ops[i - 1 + lane_rounds.ops]], period))
        --i;
      if (i > begin) first = static_cast<int>((i - 1 - lane_rounds.begin) / lane_rounds.ops) + 1;
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

  std::optional<std::int64_t> farthest() {
    for (const RankTrace& rank : trace_.ranks) {
      const LaneQueues fewer(shorter_.bodies[rank.body]);
      for (std::size_t lane = 0; lane < fewer.lanes.size(); ++lane) note_waits(rank, lane, fewer);
    }
    note_communication();
    if (!bounded_) return std::nullopt;
    return reach_;
  }

 private:
  // Notes that an op of one round depends on an op of another.
  void note(std::int64_t round, std::int64_t other_round) {
    if (round < 0) return;  // an op before the rounds stays
    if (round < count_) {
      reach_ = std::max(reach_, round < other_round ? other_round - round : round - other_round);
    } else if (other_round < 0) {
      bounded_ = false;
    }
  }

  // Notes the waits of a lane's ops. A wait for an op that stays, before all rounds, counts only if
  // it ends last of all that the op waits for. Otherwise something that moves decides the start.
  void note_waits(const RankTrace& rank, std::size_t lane, const LaneQueues& fewer) {
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
        if (wait >= 0 && in.round_of_op(body, wait) >= 0)
          moves_until = std::max(moves_until, events[wait].end_ns);
      }
      for (std::uint32_t w = 0; w < count; ++w) {
        const std::int64_t wait = wait_of(body, in.queues, lane, i, w);
        if (wait < 0) continue;
        const std::int64_t before = in.round_of_op(body, wait);
        // Returns whether the awaited op has another place in the shorter Program.
        const auto awaited_moves = [&] {
          const std::int64_t in_longer = wait_of(body, in.queues, lane, later, w);
          const std::int64_t in_shorter = wait_of(shorter, fewer, lane, later - rounds.ops, w);
          return in_longer < 0 || in_shorter < 0 ||
                 in.queues.place[in_longer] != fewer.place[in_shorter];
        };
        if (before >= 0 || awaited_moves() || events[wait].end_ns > moves_until)
          note(rounds.round_of_place(i), before);
      }
    }
  }

  // Notes the members of each communicator: they meet in the order of their ops on it.
  void note_communication() {
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
          const std::int64_t our_round = round_of(body_of(one), ours[n]);
          const std::int64_t their_round = round_of(body_of(other), theirs[n]);
          note(our_round, their_round);
          note(their_round, our_round);
        }
      }
    }
  }

  std::int64_t round_of(int body, std::uint32_t op) const {
    return rounds_[body].round_of_op(program_.bodies[body], op);
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
  const auto reach = Reach(*shorter.program, program, of_longer, *rounds, count - first).farthest();
  return reach && count - first >= 2 * *reach + 1;
}

PlayedProgram with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                          std::int64_t more) {
  const Program &shorter_program = *shorter.program, &longer_program = *longer.program;
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
    const int body = longer_program.ranks[index(split.rank)].body;
    std::vector<SlotBytes> sent = bytes_by_slot(longer_program.bodies[body]);
    const std::vector<SlotBytes> sent_less = bytes_by_slot(shorter_program.bodies[body]);
    for (std::size_t slot = 0; slot < sent.size(); ++slot)
      sent[slot] = {further(sent_less[slot].whole, sent[slot].whole),
                    further(sent_less[slot].in_rings, sent[slot].in_rings)};
    split.sent_bytes = sent_bytes(longer_program, split.rank, sent);
  }
  const Nanoseconds iteration = further(shorter.iteration_ns, longer.iteration_ns);
  return {&longer_program, means_of(std::move(splits), iteration), iteration,
          further(shorter.ops, longer.ops)};
}

}  // namespace tandem
