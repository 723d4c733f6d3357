// Rounds may be added to a played Program without a replay if three claims hold:
// 1. find_rounds(): the longer Program has one round more than the shorter one.
// 2. first_steady(): its rounds repeat in time.
// 3. Reach: no op of a steady round depends on an op that is further away than half of the steady
//    rounds.
// Further rounds then repeat, too, by induction.
//
// A round of a lane is a fixed number of consecutive ops there, which come again in the next round
// for later microbatches. When a round is inserted, an op before it stays: it keeps its place on
// its lane. An op behind it moves: to a place one round later. Three rounds of two ops:
//
//   lane:   w w | F0 B0 | F1 B1 | F2 B2 | d d
//               begin                   end         round_ops = 2, count() = 3
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

// A lane of the longer Program's body. Its rounds of `round_ops` ops each lie in places [begin,
// end). A lane without rounds has round_ops 0: its places < begin come before the rounds of other
// lanes, its others after them.
struct LaneRounds {
  std::vector<std::uint32_t> ops;  // of the lane, by place
  std::uint32_t begin = 0, round_ops = 0, end = 0;

  static constexpr int kAfterAll = INT32_MAX;  // the number of a round that comes after all others
  // Returns the number of rounds. A lane without rounds returns kAfterAll, so that it never has the
  // fewest of all lanes (align_rounds()).
  int count() const {
    return round_ops == 0 ? kAfterAll : static_cast<int>((end - begin) / round_ops);
  }
  std::uint32_t place_of_round(int round) const {
    return begin + static_cast<std::uint32_t>(round) * round_ops;
  }
  // Returns the number of the round that a place lies in: below 0 before `begin`, count() or more
  // from `end` on. Rounds of two ops from place 2 on: places 0 to 7 are in -1 -1 0 0 1 1 2 2.
  std::int64_t round_of_place(std::uint32_t place) const {
    if (round_ops == 0) return place < begin ? -1 : kAfterAll;
    if (place >= begin) return (place - begin) / round_ops;
    return -1 - static_cast<std::int64_t>((begin - 1 - place) / round_ops);
  }
};

// The rounds of a body. Only the order of ops on their lane counts, not that in the body.
struct BodyRounds {
  const Body* body = nullptr;  // the longer Program's
  std::vector<LaneRounds> lanes;
  std::vector<std::uint32_t> place;  // by op: on its lane
  std::vector<bool> is_fixed;  // by wait of an op behind its first round: the awaited op stays

  const LaneRounds& lane_of(std::uint32_t op) const { return lanes[body->ops[op].lane]; }
  std::int64_t round_of(std::uint32_t op) const { return lane_of(op).round_of_place(place[op]); }
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
        found_{&longer, {}, {}, std::vector<bool>(longer.waits.size())} {
    LaneQueues queues(longer);
    found_.place = std::move(queues.place);
    for (std::vector<std::uint32_t>& ops : queues.lanes) found_.lanes.push_back({std::move(ops)});
  }

  // Returns nothing if the prefix and the suffix of some lane do not overlap.
  std::optional<BodyRounds> find() {
    const std::size_t lanes = shorter_queues_.lanes.size();
    if (longer_.ops.size() <= shorter_.ops.size() || lanes != found_.lanes.size())
      return std::nullopt;
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::size_t ops = found_.lanes[i].ops.size(), fewer = shorter_queues_.lanes[i].size();
      if (ops < fewer) return std::nullopt;
      found_.lanes[i].round_ops = static_cast<std::uint32_t>(ops - fewer);
    }
    for (std::size_t i = 0; i < lanes; ++i) {
      if (!find_on_lane(shorter_queues_.lanes[i], &found_.lanes[i])) return std::nullopt;
    }
    for (std::size_t i = 0; i < lanes; ++i) {
      if (!find_fixed_waits(shorter_queues_.lanes[i], found_.lanes[i])) return std::nullopt;
    }
    return std::move(found_);
  }

 private:
  using Queue = std::vector<std::uint32_t>;

  // Finds a lane's rounds. In places of the shorter lane, the prefix is [0, prefix_end) and the
  // suffix [begin, size). Returns false if they do not overlap.
  bool find_on_lane(const Queue& shorter, LaneRounds* lane) const {
    const auto may_stay = [&](std::uint32_t at) { return same(lane->ops[at], shorter[at], 0); };
    const auto may_move = [&](std::uint32_t at) {
      return same(lane->ops[at + lane->round_ops], shorter[at], microbatches_);
    };
    const auto size = static_cast<std::uint32_t>(shorter.size());
    std::uint32_t prefix_end = 0;
    while (prefix_end < size && may_stay(prefix_end)) ++prefix_end;
    lane->begin = size;
    while (lane->begin > 0 && may_move(lane->begin - 1)) --lane->begin;
    lane->end = prefix_end + lane->round_ops;
    return lane->begin <= prefix_end;
  }

  // Returns whether two ops are equal but for a microbatch that is `later` higher: 0 for an op that
  // stays, else a round's. It must wait for ops at the same places of other lanes or, if it moves,
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
          const std::uint32_t places_later = found_.place[wait] - shorter_queues_.place[before];
          return places_later == 0 || (later > 0 && places_later == found_.lanes[lane].round_ops);
        });
  }

  // Marks a wait as fixed if the waiting op moves and the awaited one stays, such as a gather
  // before all passes. Returns false if the awaited op lies among the rounds of another lane, as
  // further rounds could move it.
  bool find_fixed_waits(const Queue& shorter, const LaneRounds& lane) {
    for (std::size_t i = lane.begin; i < shorter.size(); ++i) {
      const Op& op = longer_.ops[lane.ops[i + lane.round_ops]];
      const std::span before = shorter_.waits_of(shorter_.ops[shorter[i]]);
      for (std::size_t w = 0; w < before.size(); ++w) {
        const std::uint32_t awaited = longer_.waits[op.first_wait + w];
        const bool stays = found_.place[awaited] == shorter_queues_.place[before[w]];
        if (!stays) continue;
        found_.is_fixed[op.first_wait + w] = true;
        const LaneRounds& other = found_.lane_of(awaited);
        const bool is_among_rounds = other.round_ops > 0 && found_.round_of(awaited) >= 0;
        if (is_among_rounds && &other != &lane) return false;
      }
    }
    return true;
  }

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

// Calls visit(lane, events) for each lane of each rank that was played.
void for_each_lane(const Program& program, const Trace& trace, auto& rounds, auto visit) {
  for (const RankTrace& rank : trace.ranks) {
    for (auto& lane : rounds[rank.body].lanes) visit(lane, trace.events_of(program, rank));
  }
}

// Moves each lane's `begin` to its first op at or after the time when the last of all lanes begins
// its rounds, so that rounds of the same number lie beside each other in time. Leaves each lane one
// round at least. Returns the fewest rounds of any lane.
int align_rounds(const Program& program, const Trace& trace, std::vector<BodyRounds>* rounds) {
  Nanoseconds begin_ns = 0;
  for_each_lane(program, trace, *rounds, [&](const LaneRounds& lane, auto events) {
    if (lane.round_ops > 0) begin_ns = std::max(begin_ns, events[lane.ops[lane.begin]].start_ns);
  });
  int count = LaneRounds::kAfterAll;
  for_each_lane(program, trace, *rounds, [&](LaneRounds& lane, auto events) {
    const auto start_ns = [&](std::uint32_t op) { return events[op].start_ns; };
    const auto first = std::ranges::lower_bound(lane.ops, begin_ns, {}, start_ns);
    lane.begin = std::clamp(static_cast<std::uint32_t>(first - lane.ops.begin()), lane.begin,
                            lane.end - lane.round_ops);
    count = std::min(count, lane.count());
  });
  return count;
}

// Returns the first steady round: the smallest r such that every op of rounds r ... count-2 is
// repeated by the next round exactly one period later. Returns count-1 if there is no such r.
int first_steady(const Program& program, const Trace& trace, const std::vector<BodyRounds>& rounds,
                 int count, Nanoseconds period_ns) {
  int first = 0;
  for_each_lane(program, trace, rounds, [&](const LaneRounds& lane, auto events) {
    if (lane.round_ops == 0) return;
    const auto repeats = [&](std::uint32_t place) {
      const EventTimes& event = events[lane.ops[place]];
      const EventTimes& next = events[lane.ops[place + lane.round_ops]];
      return next.arrive_ns == event.arrive_ns + period_ns &&
             next.start_ns == event.start_ns + period_ns && next.end_ns == event.end_ns + period_ns;
    };
    // Goes back to the lane's last op that is not repeated: the round after it is the first.
    std::uint32_t end = lane.place_of_round(count - 1);
    while (end > lane.place_of_round(first) && repeats(end - 1)) --end;
    if (end > lane.place_of_round(first))
      first = static_cast<int>(lane.round_of_place(end - 1)) + 1;
  });
  return first;
}

// An op that another one waits for.
struct AwaitedOp {
  std::uint32_t op = 0;
  std::int64_t round = 0;
  bool stays = false;  // the other one, moved by an inserted round, still waits for this very op
};

// Fills in what the op at `place` of a lane waits for: the op before it on its lane, and ops on
// other lanes.
void find_awaited(const BodyRounds& body, const LaneRounds& lane, std::uint32_t place,
                  std::vector<AwaitedOp>* awaited) {
  awaited->clear();
  const auto add = [&](std::uint32_t op, bool stays) {
    awaited->push_back({op, body.round_of(op), stays});
  };
  // On a lane with rounds the op before moves, too. Without rounds nothing is inserted there.
  if (place > 0) add(lane.ops[place - 1], /*stays=*/lane.round_ops == 0);
  // An op of the first round waits like its repetition in the second one.
  const bool in_first_round = place < lane.begin + lane.round_ops;
  const Op& op = body.body->ops[lane.ops[place]];
  const Op& repetition = body.body->ops[lane.ops[place + (in_first_round ? lane.round_ops : 0)]];
  const std::span waits = body.body->waits_of(op);
  for (std::size_t w = 0; w < waits.size(); ++w) {
    if (body.body->ops[waits[w]].lane != op.lane)
      add(waits[w], body.is_fixed[repetition.first_wait + w]);
  }
}

// Computes the greatest distance, in rounds, between an op of the steady rounds and an op that it
// waits for or communicates with. It is unbounded if an op after these rounds waits for one before
// them, as no number of rounds then separates the two. REQUIRES: two rounds or more.
class Reach {
 public:
  Reach(const Program& program, const Trace& trace, const std::vector<BodyRounds>& rounds,
        int count)
      : program_(program), trace_(trace), rounds_(rounds), count_(count) {}

  std::optional<std::int64_t> farthest() {
    for (const RankTrace& rank : trace_.ranks) {
      for (const LaneRounds& lane : rounds_[rank.body].lanes)
        note_waits(rounds_[rank.body], lane, trace_.events_of(program_, rank));
    }
    note_communication();
    return bounded_ ? std::optional(farthest_) : std::nullopt;
  }

 private:
  // Notes that an op of `round` depends on one of `other_round`. 0 to count_ - 1 are steady.
  void note(std::int64_t round, std::int64_t other_round) {
    const bool is_before = round < 0, is_behind = round >= count_;
    if (!is_before && !is_behind) farthest_ = std::max(farthest_, std::abs(round - other_round));
    if (is_behind && other_round < 0) bounded_ = false;
  }

  // Notes the waits of a lane's ops. Leaves out a wait for an op that stays before the rounds, if
  // the same op also waits for one that ends as late or later and lies in the rounds or behind
  // them. Only the latest end counts, and with more rounds that one ends later still.
  void note_waits(const BodyRounds& body, const LaneRounds& lane,
                  std::span<const EventTimes> events) {
    std::vector<AwaitedOp> awaited;
    for (std::uint32_t place = lane.begin; place < lane.ops.size(); ++place) {
      find_awaited(body, lane, place, &awaited);
      Nanoseconds moving_end_ns = -1;
      for (const AwaitedOp& each : awaited) {
        if (each.round >= 0) moving_end_ns = std::max(moving_end_ns, events[each.op].end_ns);
      }
      for (const AwaitedOp& each : awaited) {
        const bool stays_before = each.round < 0 && each.stays;
        const bool has_no_effect = stays_before && events[each.op].end_ns <= moving_end_ns;
        if (!has_no_effect) note(lane.round_of_place(place), each.round);
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
          const std::int64_t first_round = rounds_[body_of(first)].round_of(first_ops[n]);
          const std::int64_t other_round = rounds_[body_of(other)].round_of(other_ops[n]);
          note(first_round, other_round);
          note(other_round, first_round);
        }
      }
    }
  }

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
    for (LaneRounds& lane : body.lanes) lane.begin = lane.place_of_round(first);
  }
  const auto farthest = Reach(program, longer_trace, *rounds, steady_rounds).farthest();
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
