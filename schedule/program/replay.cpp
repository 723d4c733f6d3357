#include "schedule/program/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "schedule/program/cycle.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// Of a rank's lanes, by number, those that may go on.
class LaneSet {
 public:
  explicit LaneSet(std::size_t lanes = 0) : lanes_(lanes) {}

  void insert(std::size_t lane) { words_[lane / 64] |= std::uint64_t{1} << lane % 64; }
  void erase(std::size_t lane) { words_[lane / 64] &= ~(std::uint64_t{1} << lane % 64); }

  // The first from `lane` on; kNone: there is none.
  static constexpr std::size_t kNone = 256;
  std::size_t first_from(std::size_t lane) const {
    for (; lane < lanes_; lane = (lane / 64 + 1) * 64) {
      const std::uint64_t left = words_[lane / 64] >> lane % 64;
      if (left != 0) return lane + std::countr_zero(left);
    }
    return kNone;
  }

 private:
  std::size_t lanes_;
  std::array<std::uint64_t, kNone / 64> words_{};
};

constexpr std::uint32_t kNoOp = UINT32_MAX;

// A body's ops as lists by lane: in one array that is read as the ops are, front to back.
struct LaneLists {
  std::vector<std::uint32_t> next;   // by op, the one behind it on its lane; kNoOp: none
  std::vector<std::uint32_t> first;  // by lane

  explicit LaneLists(const Body& body) : next(body.ops.size()), first(body.lanes.size(), kNoOp) {
    for (std::size_t i = body.ops.size(); i-- > 0;)
      next[i] = std::exchange(first[body.ops[i].lane], static_cast<std::uint32_t>(i));
  }
};

// One pass over the folded ranks, each run until its lanes block, woken by the rendezvous it waits
// for.
class Replayer {
 public:
  Replayer(const Program& program, const RankFolding& folding, const Jitter& jitter)
      : program_(program),
        folding_(folding),
        jitter_(jitter),
        lists_(program.bodies.begin(), program.bodies.end()),
        folded_ranks_(folding.folded_ranks.size()),
        arrivals_(folding.comm_classes.size()) {
    std::size_t events = 0;
    for (std::size_t p = 0; p < folded_ranks_.size(); ++p) {
      const FoldedRank& folded = folding.folded_ranks[p];
      State& state = folded_ranks_[p];
      state.body = &program.bodies[folded.body];
      state.next = lists_[folded.body].next.data();
      state.comm_classes = folded.comm_classes.data();
      state.rank = folded.rank;
      state.first = events;
      out_.first.push_back(events);
      events += state.body->ops.size();
      state.awake = LaneSet(state.body->lanes.size());
      for (const std::uint32_t op : lists_[folded.body].first) {
        state.awake.insert(state.lanes.size());
        state.lanes.push_back({.op = op});
      }
      runnable_.push_back(static_cast<std::int32_t>(folded_ranks_.size() - 1 - p));
      state.queued = true;
    }
    out_.events.resize(events);
    out_.settled.resize(events);
    waiters_.resize(events);
    for (std::size_t c = 0; c < arrivals_.size(); ++c) {
      for (const auto& [folded_rank, slot] : folding.comm_classes[c].members)
        arrivals_[c].members.push_back({folded_rank, body(folded_rank).slots[slot].lane});
    }
  }

  Result<Replay> run() {
    while (!runnable_.empty()) {
      const std::int32_t folded_rank = runnable_.back();
      runnable_.pop_back();
      folded_ranks_[folded_rank].queued = false;
      run_lanes(folded_rank);
    }
    if (ended_ != out_.events.size()) return Error{find_cycle(), Error::BadInput};
    return std::move(out_);
  }

 private:
  struct LaneState {
    Nanoseconds end_ns = 0;
    std::uint32_t op = 0;           // the next; kNoOp: all have ended
    bool at_rendezvous = false;     // the next op waits there
    std::uint16_t next_waiter = 0;  // as waiters_, for the same op
  };
  struct State {
    const Body* body = nullptr;
    const std::uint32_t* next = nullptr;         // by op
    const std::int32_t* comm_classes = nullptr;  // by slot
    Rank rank{};
    std::size_t first = 0;  // event
    std::vector<LaneState> lanes;
    LaneSet awake;
    bool queued = false;
  };
  struct Member {
    std::int32_t folded_rank = 0;
    std::uint8_t lane = 0;
  };
  struct Arrivals {
    std::int32_t arrived = 0;
    Nanoseconds last_ns = 0;
    std::vector<Member> members;
  };

  const Body& body(std::int32_t folded_rank) const { return *folded_ranks_[folded_rank].body; }

  bool ended(const State& state, std::uint32_t op) const {
    return out_.events[state.first + op].end_ns >= 0;
  }

  // Ranks take turns after a few ops each, so that what comes is not in a cache by itself.
  void fetch_ahead(const State& state, std::uint32_t op) const {
    constexpr std::size_t kAhead = 16;
    const Body& body = *state.body;
    const std::size_t ahead = op + kAhead, wait = body.ops[op].first_wait + kAhead;
    if (wait < body.waits.size()) __builtin_prefetch(&body.waits[wait]);
    if (ahead >= body.ops.size()) return;
    __builtin_prefetch(&body.ops[ahead]);
    __builtin_prefetch(&state.next[ahead]);
    __builtin_prefetch(&out_.events[state.first + ahead], 1);
    __builtin_prefetch(&out_.settled[state.first + ahead], 1);
    __builtin_prefetch(&waiters_[state.first + ahead], 1);
  }

  // Runs each lane that may go on, again and again in their order, until none may.
  void run_lanes(std::int32_t folded_rank) {
    LaneSet& awake = folded_ranks_[folded_rank].awake;
    std::size_t lane = awake.first_from(0);
    while (lane != LaneSet::kNone) {
      awake.erase(lane);
      run_lane(folded_rank, static_cast<std::uint8_t>(lane));
      const std::size_t next = awake.first_from(lane + 1);
      lane = next != LaneSet::kNone ? next : awake.first_from(0);
    }
  }

  void run_lane(std::int32_t folded_rank, std::uint8_t number) {
    State& state = folded_ranks_[folded_rank];
    const Body& body = *state.body;
    LaneState& lane = state.lanes[number];
    while (lane.op != kNoOp && !lane.at_rendezvous) {
      const std::uint32_t i = lane.op;
      const Op& op = body.ops[i];
      fetch_ahead(state, i);
      Nanoseconds ready = lane.end_ns;
      for (const std::uint32_t wait : body.waits_of(op)) {
        const Nanoseconds end = out_.events[state.first + wait].end_ns;
        if (end < 0) {
          lane.next_waiter = std::exchange(waiters_[state.first + wait], number + 1);
          return;
        }
        ready = std::max(ready, end);
      }
      if (is_compute(op.kind)) {
        const Nanoseconds end = ready + jitter_.apply(op.duration_ns, index(state.rank), i);
        settle(&state, &lane, i, {ready, ready, end});
        ++settled_;
      } else {
        arrive(folded_rank, number, i, ready);
      }
    }
  }

  void arrive(std::int32_t folded_rank, std::uint8_t lane, std::uint32_t op, Nanoseconds ready) {
    State& state = folded_ranks_[folded_rank];
    Arrivals& arrivals = arrivals_[state.comm_classes[state.body->ops[op].slot]];
    out_.events[state.first + op].arrive_ns = ready;
    state.lanes[lane].at_rendezvous = true;
    arrivals.last_ns = arrivals.arrived == 0 ? ready : std::max(arrivals.last_ns, ready);
    if (++arrivals.arrived < static_cast<std::int32_t>(arrivals.members.size())) return;
    arrivals.arrived = 0;
    const Nanoseconds start = arrivals.last_ns;
    for (const auto& [other, lane_there] : arrivals.members) {
      State& there = folded_ranks_[other];
      LaneState& at_lane = there.lanes[lane_there];
      const std::uint32_t at = at_lane.op;
      const Nanoseconds arrived = out_.events[there.first + at].arrive_ns;
      settle(&there, &at_lane, at, {arrived, start, start + there.body->ops[at].duration_ns});
      at_lane.at_rendezvous = false;
      if (other == folded_rank && lane_there == lane) continue;  // it is running
      there.awake.insert(lane_there);
      if (!there.queued && other != folded_rank) {
        there.queued = true;
        runnable_.push_back(other);
      }
    }
    ++settled_;
  }

  // The op has ended: its lane goes on, and so may those that wait for it.
  void settle(State* state, LaneState* lane, std::uint32_t op, const EventTimes& times) {
    const std::size_t event = state->first + op;
    out_.events[event] = times;
    out_.settled[event] = settled_;
    for (std::uint16_t waiter = waiters_[event]; waiter != 0;
         waiter = state->lanes[waiter - 1].next_waiter) {
      state->awake.insert(waiter - 1);
      __builtin_prefetch(&state->body->ops[state->lanes[waiter - 1].op]);
    }
    lane->end_ns = times.end_ns;
    lane->op = state->next[op];
    if (lane->op != kNoOp) __builtin_prefetch(&state->body->ops[lane->op]);
    ++ended_;
  }

  struct Place {
    std::int32_t folded_rank = -1;
    std::uint32_t op = 0;
    auto operator<=>(const Place&) const = default;
  };

  // What the op waits for: a wait, the op before it on its lane, or a participant that has not
  // come.
  Place blocker(const Place& at) const {
    const Body& ops = body(at.folded_rank);
    const Op& op = ops.ops[at.op];
    for (const std::uint32_t wait : ops.waits_of(op)) {
      if (!ended(folded_ranks_[at.folded_rank], wait)) return {at.folded_rank, wait};
    }
    const State& own = folded_ranks_[at.folded_rank];
    for (std::uint32_t before = own.lanes[op.lane].op; before != at.op; before = own.next[before]) {
      if (own.next[before] == at.op) return {at.folded_rank, before};
    }
    const std::int32_t c = folding_.folded_ranks[at.folded_rank].comm_classes[op.slot];
    for (const auto& [other, slot] : folding_.comm_classes[c].members) {
      const std::uint8_t lane = body(other).slots[slot].lane;
      const LaneState& state = folded_ranks_[other].lanes[lane];
      if (!state.at_rendezvous && state.op != kNoOp) return {other, state.op};
    }
    return {};  // a participant has no such op at all: validate() finds that
  }

  Place first_stuck() const {
    for (std::int32_t p = 0;; ++p) {
      for (std::uint32_t op = 0; op < body(p).ops.size(); ++op) {
        if (!ended(folded_ranks_[p], op)) return {p, op};
      }
    }
  }

  // REQUIRES: an op that has not ended.
  std::string find_cycle() const {
    const std::vector<Place> cycle = cycle_from(first_stuck(), [&](const Place& at) {
      const Place next = blocker(at);
      return next.folded_rank < 0 ? at : next;
    });
    if (blocker(cycle.front()).folded_rank < 0)
      return fmt::format("found {} waiting for a participant that never comes, expected one",
                         text(cycle.front()));
    return "found a deadlock, expected an order that ends: " +
           cycle_text(cycle, [&](const Place& at) { return text(at); });
  }

  std::string text(const Place& place) const {
    return fmt::format("{} on rank {}",
                       describe(body(place.folded_rank), body(place.folded_rank).ops[place.op]),
                       index(folding_.folded_ranks[place.folded_rank].rank));
  }

  const Program& program_;
  const RankFolding& folding_;
  const Jitter jitter_;
  std::vector<LaneLists> lists_;  // by body
  std::vector<State> folded_ranks_;
  std::vector<Arrivals> arrivals_;
  std::vector<std::int32_t> runnable_;
  std::vector<std::uint16_t> waiters_;  // by event: 1 + a lane that waits for it; 0: none
  Replay out_;
  std::size_t ended_ = 0;
  std::uint32_t settled_ = 0;
};

}  // namespace

Result<Replay> replay(const Program& program, const RankFolding& folding, const Jitter& jitter) {
  return Replayer(program, folding, jitter).run();
}

}  // namespace tandem
