#include "schedule/program/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "base/check.h"
#include "schedule/program/cycle.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// Of a rank's lanes, by number, those that may go on.
class LaneSet {
 public:
  explicit LaneSet(std::size_t lanes = 0) : lanes_(lanes) { CHECK(lanes <= kMostLanes); }

  void insert(std::size_t lane) { words_[lane / 64] |= std::uint64_t{1} << lane % 64; }

  // Takes out the first from `lane` on; kNone: there is none.
  static constexpr std::size_t kNone = kMostLanes + 1;
  std::size_t take_from(std::size_t lane) {
    for (; lane < lanes_; lane = (lane / 64 + 1) * 64) {
      std::uint64_t& word = words_[lane / 64];
      const std::uint64_t left = word >> lane % 64 << lane % 64;
      if (left == 0) continue;
      word ^= left & -left;
      return lane / 64 * 64 + std::countr_zero(left);
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
      const Body& body = program.bodies[folded.body];
      State& state = folded_ranks_[p];
      state.body = &body;
      state.ops = body.ops.data();
      state.next = lists_[folded.body].next.data();
      state.comm_classes = folded.comm_classes.data();
      state.rank = index(folded.rank);
      state.last_op = std::max<std::size_t>(body.ops.size(), 1) - 1;
      state.last_wait = std::max<std::size_t>(body.waits.size(), 1) - 1;
      state.awake = LaneSet(body.lanes.size());
      out_.first.push_back(events);
      events += body.ops.size();
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
    for (std::size_t p = 0; p < folded_ranks_.size(); ++p) {
      State& state = folded_ranks_[p];
      state.events = out_.events.data() + out_.first[p];
      state.settled = out_.settled.data() + out_.first[p];
      state.waiters = waiters_.data() + out_.first[p];
    }
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
  // Of a folded rank; its ops' arrays by op.
  struct State {
    const Op* ops = nullptr;
    const std::uint32_t* next = nullptr;
    EventTimes* events = nullptr;
    std::uint32_t* settled = nullptr;
    std::uint16_t* waiters = nullptr;
    const std::int32_t* comm_classes = nullptr;  // by slot
    const Body* body = nullptr;
    std::size_t last_op = 0, last_wait = 0;
    std::int32_t rank = 0;
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

  // Ranks take turns after a few ops each, so that what comes is not in a cache by itself.
  // Inlined always: GCC 12 drops calls of a function that does nothing but prefetch.
  [[gnu::always_inline]] static void fetch_ahead(const State& state, std::uint32_t op,
                                                 std::uint32_t first_wait) {
    constexpr std::size_t kAhead = 16;
    const std::size_t ahead = std::min(op + kAhead, state.last_op);
    __builtin_prefetch(state.body->waits.data() + std::min(first_wait + kAhead, state.last_wait));
    __builtin_prefetch(state.ops + ahead);
    __builtin_prefetch(state.next + ahead);
    __builtin_prefetch(state.events + ahead, 1);
    __builtin_prefetch(state.settled + ahead, 1);
    __builtin_prefetch(state.waiters + ahead, 1);
  }

  // Runs each lane that may go on, again and again in their order, until none may.
  void run_lanes(std::int32_t folded_rank) {
    State& state = folded_ranks_[folded_rank];
    std::size_t lane = state.awake.take_from(0);
    while (lane != LaneSet::kNone) {
      run_lane(folded_rank, &state, lane);
      const std::size_t next = state.awake.take_from(lane + 1);
      lane = next != LaneSet::kNone ? next : state.awake.take_from(0);
    }
  }

  void run_lane(std::int32_t folded_rank, State* state, std::size_t number) {
    LaneState& lane = state->lanes[number];
    while (lane.op != kNoOp && !lane.at_rendezvous) {
      const std::uint32_t i = lane.op;
      const Op& op = state->ops[i];
      fetch_ahead(*state, i, op.first_wait);
      Nanoseconds ready = lane.end_ns;
      for (const std::uint32_t wait : state->body->waits_of(op)) {
        const Nanoseconds end = state->events[wait].end_ns;
        if (end < 0) {
          lane.next_waiter =
              std::exchange(state->waiters[wait], static_cast<std::uint16_t>(number + 1));
          return;
        }
        ready = std::max(ready, end);
      }
      if (is_compute(op.kind)) {
        const Nanoseconds end = ready + jitter_.apply(op.duration_ns, state->rank, i);
        settle(state, &lane, i, {ready, ready, end});
        ++settled_;
      } else {
        arrive(folded_rank, number, state->comm_classes[op.slot], ready);
      }
    }
  }

  // The lane's op is ready to communicate: it ends with the last of its members.
  void arrive(std::int32_t folded_rank, std::size_t lane, std::int32_t comm_class,
              Nanoseconds ready) {
    Arrivals& arrivals = arrivals_[comm_class];
    LaneState& own = folded_ranks_[folded_rank].lanes[lane];
    folded_ranks_[folded_rank].events[own.op].arrive_ns = ready;
    own.at_rendezvous = true;
    arrivals.last_ns = arrivals.arrived == 0 ? ready : std::max(arrivals.last_ns, ready);
    if (++arrivals.arrived < static_cast<std::int32_t>(arrivals.members.size())) return;
    arrivals.arrived = 0;
    const Nanoseconds start = arrivals.last_ns;
    for (const auto& [other, lane_there] : arrivals.members) {
      State& there = folded_ranks_[other];
      LaneState& at_lane = there.lanes[lane_there];
      const std::uint32_t at = at_lane.op;
      settle(&there, &at_lane, at,
             {there.events[at].arrive_ns, start, start + there.ops[at].duration_ns});
      at_lane.at_rendezvous = false;
      if (&at_lane == &own) continue;  // it is running
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
    state->events[op] = times;
    state->settled[op] = settled_;
    for (std::uint16_t waiter = state->waiters[op]; waiter != 0;
         waiter = state->lanes[waiter - 1].next_waiter) {
      state->awake.insert(waiter - 1);
      __builtin_prefetch(state->ops + state->lanes[waiter - 1].op);
    }
    lane->end_ns = times.end_ns;
    lane->op = state->next[op];
    if (lane->op != kNoOp) __builtin_prefetch(state->ops + lane->op);
    ++ended_;
  }

  struct Place {
    std::int32_t folded_rank = -1;
    std::uint32_t op = 0;
    auto operator<=>(const Place&) const = default;
  };

  bool ended(std::int32_t folded_rank, std::uint32_t op) const {
    return folded_ranks_[folded_rank].events[op].end_ns >= 0;
  }

  // What the op waits for: a wait, the op before it on its lane, or a participant that has not
  // come.
  Place blocker(const Place& at) const {
    const Body& ops = body(at.folded_rank);
    const Op& op = ops.ops[at.op];
    for (const std::uint32_t wait : ops.waits_of(op)) {
      if (!ended(at.folded_rank, wait)) return {at.folded_rank, wait};
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
        if (!ended(p, op)) return {p, op};
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
