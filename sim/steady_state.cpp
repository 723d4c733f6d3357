// Rounds may be added to a played Program without a replay if three claims hold:
// 1. find_rounds(): the longer Program has one round more than the shorter one.
// 2. first_steady(): its rounds repeat in time.
// 3. Reach: no op of a steady round depends on an op that is further away than half of the steady
//    rounds.
// Further rounds then repeat, too, by induction.
//
// A round of a lane is a fixed number of consecutive ops there, which come again in the next round
// for later microbatches. When a round is inserted, an op before it stays: it keeps its place on
// its lane. An op behind it moves: by one round, to a place `ops` later. Three rounds of two ops:
//
//   lane:   w w | F0 B0 | F1 B1 | F2 B2 | d d
//               begin                   end         ops = 2, count() = 3
#include "sim/steady_state.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"

namespace tandem {
namespace {

// The rounds of a lane: its places [begin, end) hold whole rounds of `ops` ops each. ops == 0: the
// lane has no rounds; places < begin come before the rounds of other lanes, the others after.
struct Rounds {
  std::uint32_t begin = 0, ops = 0, end = 0;

  static constexpr int kAfterAll = INT32_MAX;  // a round's number
  int count() const { return ops == 0 ? kAfterAll : static_cast<int>((end - begin) / ops); }
  // Returns the number of the round that a place lies in: below 0 before `begin`, count() or more
  // from `end` on.
  std::int64_t round_of_place(std::uint32_t place) const {
    if (ops == 0) return place < begin ? -1 : kAfterAll;
    const auto from_begin = static_cast<std::int64_t>(place) - begin;
    return from_begin >= 0 ? from_begin / ops : -1 - (-1 - from_begin) / ops;
  }
};

// The rounds of a body, by lane: only the order of ops on their lane counts, not that in the body.
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

// Finds a body's rounds by comparing each lane of the shorter body with that of the longer one:
// - The ops of the longest equal prefix may stay when a round is inserted.
// - The ops of the longest suffix that is equal but for `microbatches` later microbatches may move.
// If prefix and suffix overlap, the round may have been inserted at any place of the overlap.
// Example with one microbatch a round:
//
//   shorter  w F0 B0 F1 B1 d          prefix: w F0 B0 F1 B1
//   longer   w F0 B0 F1 B1 F2 B2 d    suffix: F0 B0 F1 B1 d, which are F1 B1 F2 B2 d in the longer
//   rounds     F0 B0|F1 B1|F2 B2
class RoundsOfBody {
 public:
  RoundsOfBody(const Body& shorter, const Body& longer, int microbatches)
      : shorter_(shorter),
        longer_(longer),
        microbatches_(microbatches),
        shorter_queues_(shorter),
        found_{LaneQueues(longer), std::vector<Rounds>(longer.lanes.size())} {}

  // Returns nothing if the prefix and the suffix of some lane do not overlap.
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
      if (!find_on_lane(lane)) return std::nullopt;
    }
    if (!fixed_waits_precede_rounds()) return std::nullopt;
    return std::move(found_);
  }

 private:
  using Queue = std::vector<std::uint32_t>;
  const Queue& shorter_lane(std::size_t lane) const { return shorter_queues_.lanes[lane]; }
  const Queue& longer_lane(std::size_t lane) const { return found_.queues.lanes[lane]; }

  // Finds a lane's rounds: its prefix ends at `prefix_end`, its suffix begins at `begin`.
  bool find_on_lane(std::size_t lane) {
    Rounds& rounds = found_.of_lane[lane];
    const auto size = static_cast<std::uint32_t>(shorter_lane(lane).size());
    std::uint32_t prefix_end = 0;
    while (prefix_end < size &&
           same(longer_lane(lane)[prefix_end], shorter_lane(lane)[prefix_end], 0))
      ++prefix_end;
    std::uint32_t begin = size;
    while (begin > 0 && same(longer_lane(lane)[begin - 1 + rounds.ops],
                             shorter_lane(lane)[begin - 1], microbatches_))
      --begin;
    rounds.begin = begin;
    rounds.end = prefix_end + rounds.ops;
    return begin <= prefix_end;
  }

  // Returns whether op `in_longer` equals op `in_shorter` but for a microbatch that is `later`
  // higher. Each op on another lane that it waits for must be at the same place, or (if later > 0)
  // exactly one round later. Waits for ops of its own lane need no check: these end before it.
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
          const std::uint32_t places_later = place(wait) - shorter_queues_.place[before];
          return places_later == 0 || (later > 0 && places_later == found_.of_lane[lane].ops);
        });
  }

  // An op that moves may wait for one that stays, such as a gather before all passes. Returns
  // whether each op so awaited lies before the rounds of its lane, or on a lane without rounds.
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

// Moves each lane's `begin` to its first op at or after the time when the last of all lanes begins
// its rounds, so that rounds of the same number lie beside each other in time. Leaves each lane one
// round at least. Returns the fewest rounds of any lane.
int align_rounds(const Program& program, const Trace& trace, std::vector<BodyRounds>* rounds) {
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
  int count = Rounds::kAfterAll;
  each_lane([&](const auto& ops, const auto& start_ns, Rounds* lane) {
    const auto first = std::ranges::lower_bound(ops, begin_ns, {}, start_ns) - ops.begin();
    lane->begin = std::clamp(static_cast<std::uint32_t>(first), lane->begin, lane->end - lane->ops);
    count = std::min(count, lane->count());
  });
  return count;
}

// Returns whether all times of `b` are those of `a` plus `ns`.
bool is_later_by(const EventTimes& a, const EventTimes& b, Nanoseconds ns) {
  return b.arrive_ns == a.arrive_ns + ns && b.start_ns == a.start_ns + ns &&
         b.end_ns == a.end_ns + ns;
}

// Returns the first steady round: the smallest r such that every op of rounds r ... count-2 is
// repeated by the next round exactly one period later. Returns count-1 if there is no such r.
int first_steady(const Program& program, const Trace& trace, const std::vector<BodyRounds>& rounds,
                 int count, Nanoseconds period_ns) {
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
             is_later_by(events[ops[i - 1]], events[ops[i - 1 + lane_rounds.ops]], period_ns))
        --i;
      if (i > begin) first = static_cast<int>((i - 1 - lane_rounds.begin) / lane_rounds.ops) + 1;
    }
  }
  return first;
}

// Returns the op that the op at `place` of a lane waits for: as number 0 the op before it on its
// lane, as number n > 0 its n-th wait. Returns -1 for none, and for a wait on its own lane.
std::int64_t awaited_op(const Body& body, const LaneQueues& queues, std::size_t lane,
                        std::uint32_t place, std::uint32_t number) {
  const std::vector<std::uint32_t>& ops = queues.lanes[lane];
  if (number == 0) return place > 0 ? std::int64_t{ops[place - 1]} : -1;
  const std::uint32_t wait = body.waits_of(body.ops[ops[place]])[number - 1];
  return body.ops[wait].lane == lane ? -1 : std::int64_t{wait};
}

// Computes the greatest distance, in rounds, between an op of the steady rounds and an op that it
// waits for or communicates with. It is unbounded if an op after these rounds waits for one before
// them, as no number of rounds then separates the two. REQUIRES: two rounds or more.
class Reach {
 public:
  Reach(const Program& shorter, const Program& program, const Trace& trace,
        const std::vector<BodyRounds>& rounds, int count)
      : shorter_(shorter), program_(program), trace_(trace), rounds_(rounds), count_(count) {}

  std::optional<std::int64_t> farthest() {
    for (const RankTrace& rank : trace_.ranks) {
      const LaneQueues shorter_queues(shorter_.bodies[rank.body]);
      for (std::size_t lane = 0; lane < shorter_queues.lanes.size(); ++lane)
        note_waits(rank, lane, shorter_queues);
    }
    note_communication();
    if (!bounded_) return std::nullopt;
    return farthest_;
  }

 private:
  // Notes that an op of `round` depends on an op of `other_round`.
  void note(std::int64_t round, std::int64_t other_round) {
    if (round < 0) return;  // an op before the rounds stays
    if (round < count_) {
      farthest_ = std::max(farthest_, std::abs(round - other_round));
    } else if (other_round < 0) {
      bounded_ = false;
    }
  }

  // Notes the waits of a lane's ops. A wait for an op before the rounds that stays is ignored if an
  // awaited op that moves ends no earlier: the start follows that one.
  void note_waits(const RankTrace& rank, std::size_t lane, const LaneQueues& shorter_queues) {
    const Body &body = program_.bodies[rank.body], &shorter = shorter_.bodies[rank.body];
    const BodyRounds& body_rounds = rounds_[rank.body];
    const LaneQueues& queues = body_rounds.queues;
    const Rounds& rounds = body_rounds.of_lane[lane];
    const std::span<const EventTimes> events = trace_.events_of(program_, rank);
    const std::vector<std::uint32_t>& ops = queues.lanes[lane];
    for (std::uint32_t i = rounds.begin; i < ops.size(); ++i) {
      // The shorter Program has the op at `compared` - rounds.ops. In the first round that would
      // lie before the rounds, so that the op's repetition one round later is compared.
      const std::uint32_t compared = i >= rounds.begin + rounds.ops ? i : i + rounds.ops;
      const std::uint32_t count = 1 + body.ops[ops[i]].waits;
      Nanoseconds moving_end_ns = -1;
      for (std::uint32_t w = 0; w < count; ++w) {
        const std::int64_t wait = awaited_op(body, queues, lane, i, w);
        if (wait >= 0 && body_rounds.round_of_op(body, wait) >= 0)
          moving_end_ns = std::max(moving_end_ns, events[wait].end_ns);
      }
      for (std::uint32_t w = 0; w < count; ++w) {
        const std::int64_t wait = awaited_op(body, queues, lane, i, w);
        if (wait < 0) continue;
        const std::int64_t wait_round = body_rounds.round_of_op(body, wait);
        // Returns whether the awaited op has another place in the shorter Program.
        const auto awaited_moves = [&] {
          const std::int64_t in_longer = awaited_op(body, queues, lane, compared, w);
          const std::int64_t in_shorter =
              awaited_op(shorter, shorter_queues, lane, compared - rounds.ops, w);
          return in_longer < 0 || in_shorter < 0 ||
                 queues.place[in_longer] != shorter_queues.place[in_shorter];
        };
        if (wait_round >= 0 || awaited_moves() || events[wait].end_ns > moving_end_ns)
          note(rounds.round_of_place(i), wait_round);
      }
    }
  }

  // Notes the members of each communicator: the n-th op of one runs together with the n-th op of
  // every other.
  void note_communication() {
    const RankFolding folding = fold(program_);
    std::vector<std::vector<std::vector<std::uint32_t>>> slots;
    for (const Body& body : program_.bodies) slots.push_back(ops_by_slot(body));
    for (const CommunicatorClass& comm : folding.comm_classes) {
      const auto body_of = [&](const ClassMember& member) {
        return folding.folded_ranks[member.folded_rank].body;
      };
      const ClassMember& first = comm.members.front();
      for (const ClassMember& other : comm.members) {
        const auto& first_ops = slots[body_of(first)][first.slot];
        const auto& other_ops = slots[body_of(other)][other.slot];
        CHECK(first_ops.size() == other_ops.size());
        for (std::size_t n = 0; n < first_ops.size(); ++n) {
          const std::int64_t first_round = round_of(body_of(first), first_ops[n]);
          const std::int64_t other_round = round_of(body_of(other), other_ops[n]);
          note(first_round, other_round);
          note(other_round, first_round);
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
  std::int64_t farthest_ = 0;
  bool bounded_ = true;
};

}  // namespace

PlayedProgram measured(const Program& program, const Trace& trace) {
  Nanoseconds end = 0;
  for (const EventTimes& event : trace.events) end = std::max(end, event.end_ns);
  return {&program, measure(program, trace), end, static_cast<std::int64_t>(trace.events.size())};
}

bool is_steady(const PlayedProgram& shorter, const PlayedProgram& longer, const Trace& longer_trace,
               int microbatches) {
  const Program& program = *longer.program;
  auto rounds = find_rounds(*shorter.program, program, microbatches);
  if (!rounds) return false;
  const int count = align_rounds(program, longer_trace, &*rounds);
  const Nanoseconds period_ns = longer.iteration_ns - shorter.iteration_ns;
  if (period_ns <= 0) return false;
  const int first = first_steady(program, longer_trace, *rounds, count, period_ns);
  const int steady_rounds = count - first;
  if (steady_rounds < 2) return false;
  for (BodyRounds& body : *rounds) {
    for (Rounds& lane : body.of_lane) lane.begin += first * lane.ops;
  }
  const auto farthest =
      Reach(*shorter.program, program, longer_trace, *rounds, steady_rounds).farthest();
  return farthest && steady_rounds >= 2 * *farthest + 1;
}

PlayedProgram with_rounds(const PlayedProgram& shorter, const PlayedProgram& longer,
                          std::int64_t more) {
  const Program &shorter_program = *shorter.program, &longer_program = *longer.program;
  // Continues the line through a value of `shorter` and one of `longer` by `more` rounds.
  const auto extrapolated = [more](std::int64_t shorter_value, std::int64_t longer_value) {
    return longer_value + more * (longer_value - shorter_value);
  };
  std::vector<RankSplit> splits = longer.metrics.ranks;
  for (std::size_t r = 0; r < splits.size(); ++r) {
    const RankSplit& shorter_split = shorter.metrics.ranks[r];
    RankSplit& split = splits[r];
    for (const auto time :
         {&RankSplit::compute_ns, &RankSplit::bubble_ns, &RankSplit::window_bubble_ns,
          &RankSplit::exposed_between_nodes_ns, &RankSplit::last_end_ns})
      split.*time = extrapolated(shorter_split.*time, split.*time);
    for (const auto times : {&RankSplit::exposed_ns, &RankSplit::comm_ns, &RankSplit::overlap_ns}) {
      for (int kind = 0; kind < kGroupKinds; ++kind)
        (split.*times)[kind] = extrapolated((shorter_split.*times)[kind], (split.*times)[kind]);
    }
    const int body = longer_program.ranks[index(split.rank)].body;
    std::vector<SlotBytes> sent = bytes_by_slot(longer_program.bodies[body]);
    const std::vector<SlotBytes> shorter_sent = bytes_by_slot(shorter_program.bodies[body]);
    for (std::size_t slot = 0; slot < sent.size(); ++slot)
      sent[slot] = {extrapolated(shorter_sent[slot].whole, sent[slot].whole),
                    extrapolated(shorter_sent[slot].in_rings, sent[slot].in_rings)};
    split.sent_bytes = sent_bytes(longer_program, split.rank, sent);
  }
  const Nanoseconds iteration_ns = extrapolated(shorter.iteration_ns, longer.iteration_ns);
  return {&longer_program, means_of(std::move(splits), iteration_ns), iteration_ns,
          extrapolated(shorter.ops, longer.ops)};
}

}  // namespace tandem
