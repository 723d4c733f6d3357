// Replayer: plays a Program by Kahn's algorithm (1962). An op starts when the op before it on its
// lane and all its waits have ended and, for communication, all participants have arrived (a
// rendezvous). Simulators share this file and differ in `Ends`, the type that decides when an op
// ends, by two functions (`number` is the op's index in its body):
//
//   Nanoseconds compute_ends(std::int32_t folded_rank, std::uint32_t number, const Op& op,
//                            Nanoseconds start);
//   Nanoseconds operation_ends(std::int32_t comm_class, const Op& op, Nanoseconds start);
//
// These may return kLater instead of an end. The caller then reports the end by end_compute() or
// end_operation() once it is known.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/program/program.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"

namespace tandem {

// A set of lanes of one rank, as bits.
class LaneSet {
 public:
  explicit LaneSet(std::size_t lanes = 0) : lanes_(lanes) { CHECK(lanes <= kMostLanes); }

  void insert(std::size_t lane) { words_[lane / 64] |= std::uint64_t{1} << lane % 64; }

  // Removes and returns the first lane from `lane` on; kNone if there is none.
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

// The ops of each lane of a body as linked lists in one array. It is read about as sequentially as
// the array of ops.
struct LaneLists {
  std::vector<std::uint32_t> next;   // by op: the next one on its lane, or kNoOp
  std::vector<std::uint32_t> first;  // by lane

  explicit LaneLists(const Body& body) : next(body.ops.size()), first(body.lanes.size(), kNoOp) {
    for (std::size_t i = body.ops.size(); i-- > 0;)
      next[i] = std::exchange(first[body.ops[i].lane], static_cast<std::uint32_t>(i));
  }
};

// A folded rank and the lane on which it takes part in a communicator class's operations.
struct LaneMember {
  std::int32_t folded_rank = 0;
  std::uint8_t lane = 0;
};

// Plays a Program. Each folded rank runs until all its lanes wait; the end of an op that a lane
// waits for wakes the rank.
template <class Ends>
class Replayer {
 public:
  static constexpr Nanoseconds kLater = -1;

  // `numbered`: whether to fill in Replay::settled.
  Replayer(const Program& program, const RankFolding& folding, bool numbered, Ends* ends)
      : ends_(*ends),
        numbered_(numbered),
        lists_(program.bodies.begin(), program.bodies.end()),
        folded_ranks_(folding.folded_ranks.size()),
        rendezvous_(folding.comm_classes.size()) {
    add_folded_ranks(program, folding);
    for (std::size_t c = 0; c < rendezvous_.size(); ++c) {
      for (const auto& [folded_rank, slot] : folding.comm_classes[c].members)
        rendezvous_[c].members.push_back(
            {folded_rank, folded_ranks_[folded_rank].body->slots[slot].lane});
    }
  }
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // Plays until no op may go on.
  void run() {
    while (!runnable_.empty()) {
      const std::int32_t folded_rank = runnable_.back();
      runnable_.pop_back();
      run_lanes(folded_rank);
      folded_ranks_[folded_rank].queued = false;
    }
  }

  // Report the end of the compute op under way, or of the communicator class's operation. Call
  // run() after that.
  void end_compute(std::int32_t folded_rank, Nanoseconds end) {
    const State& state = folded_ranks_[folded_rank];
    end_on(folded_rank, kComputeLane, state.events[state.lanes[kComputeLane].op].arrive_ns, end);
    wake(folded_rank, kComputeLane);
    ++settled_;
  }
  void end_operation(std::int32_t comm_class, Nanoseconds end) {
    const Rendezvous& rendezvous = rendezvous_[comm_class];
    for (const auto& [folded_rank, lane] : rendezvous.members) {
      end_on(folded_rank, lane, rendezvous.start_ns, end);
      wake(folded_rank, lane);
    }
    ++settled_;
  }

  const std::vector<LaneMember>& members(std::int32_t comm_class) const {
    return rendezvous_[comm_class].members;
  }
  // Returns the number of the lane's first op that has not ended, or kNoOp if all have.
  std::uint32_t first_not_ended(std::int32_t folded_rank, std::size_t lane) const {
    return folded_ranks_[folded_rank].lanes[lane].op;
  }
  // Returns the lane's first op that has not ended, or null if all have.
  const Op* op_at(std::int32_t folded_rank, std::size_t lane) const {
    const std::uint32_t number = first_not_ended(folded_rank, lane);
    return number == kNoOp ? nullptr : &folded_ranks_[folded_rank].ops[number];
  }
  // Returns whether the lane's first op that has not ended has arrived.
  bool has_arrived(std::int32_t folded_rank, std::size_t lane) const {
    return folded_ranks_[folded_rank].lanes[lane].has_arrived;
  }
  // Returns the op after `op` on its lane, or kNoOp if there is none.
  std::uint32_t op_behind(std::int32_t folded_rank, std::uint32_t op) const {
    return folded_ranks_[folded_rank].next[op];
  }
  bool has_ended(std::int32_t folded_rank, std::uint32_t op) const {
    return folded_ranks_[folded_rank].events[op].end_ns >= 0;
  }
  bool have_all_ended() const { return ended_ == out_.events.size(); }
  std::size_t ended() const { return ended_; }
  std::size_t ops() const { return out_.events.size(); }

  Replay take() { return std::move(out_); }

 private:
  static constexpr std::size_t kComputeLane = 0;

  struct LaneState {
    Nanoseconds end_ns = 0;
    std::uint32_t op = 0;           // the next op, or kNoOp if all have ended
    bool has_arrived = false;       // the next op has: it waits for participants or its end
    std::uint16_t next_waiter = 0;  // the next lane that waits for the same op, as in waiters_
  };
  // The state of a folded rank. The pointers lead to arrays by op.
  struct State {
    const Op* ops = nullptr;
    const std::uint32_t* next = nullptr;
    EventTimes* events = nullptr;
    std::uint32_t* settled = nullptr;  // Replay::settled; null if not wanted
    std::uint16_t* waiters = nullptr;
    const std::int32_t* comm_classes = nullptr;  // by slot
    const Body* body = nullptr;
    std::size_t last_op = 0, last_wait = 0;
    std::vector<LaneState> lanes;
    LaneSet awake;
    bool queued = false;
  };
  struct Rendezvous {
    std::int32_t arrived = 0;
    Nanoseconds start_ns = 0;  // start of the last to arrive so far
    std::vector<LaneMember> members;
  };

  void add_folded_ranks(const Program& program, const RankFolding& folding) {
    std::size_t events = 0;
    for (std::size_t p = 0; p < folded_ranks_.size(); ++p) {
      const FoldedRank& folded = folding.folded_ranks[p];
      const Body& body = program.bodies[folded.body];
      State& state = folded_ranks_[p];
      state.body = &body;
      state.ops = body.ops.data();
      state.next = lists_[folded.body].next.data();
      state.comm_classes = folded.comm_classes.data();
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
    if (numbered_) out_.settled.resize(events);
    waiters_.resize(events);
    for (std::size_t p = 0; p < folded_ranks_.size(); ++p) {
      State& state = folded_ranks_[p];
      state.events = out_.events.data() + out_.first[p];
      if (numbered_) state.settled = out_.settled.data() + out_.first[p];
      state.waiters = waiters_.data() + out_.first[p];
    }
  }

  // Prefetches the data of the ops that follow. Ranks take turns after a few ops each, so the
  // hardware does not prefetch it. It must be inlined: GCC 12 drops calls of a function that only
  // prefetches.
  [[gnu::always_inline]] static void fetch_ahead(const State& state, std::uint32_t op,
                                                 std::uint32_t first_wait) {
    constexpr std::size_t kAhead = 16;
    const std::size_t ahead = std::min(op + kAhead, state.last_op);
    __builtin_prefetch(state.body->waits.data() + std::min(first_wait + kAhead, state.last_wait));
    __builtin_prefetch(state.ops + ahead);
    __builtin_prefetch(state.next + ahead);
    __builtin_prefetch(state.events + ahead, 1);
    if (state.settled != nullptr) __builtin_prefetch(state.settled + ahead, 1);
    __builtin_prefetch(state.waiters + ahead, 1);
  }

  void wake(std::int32_t folded_rank, std::size_t lane) {
    State& state = folded_ranks_[folded_rank];
    state.awake.insert(lane);
    if (state.queued) return;
    state.queued = true;
    runnable_.push_back(folded_rank);
  }

  // Runs the awake lanes, round after round in lane order, until none is awake.
  void run_lanes(std::int32_t folded_rank) {
    State& state = folded_ranks_[folded_rank];
    std::size_t lane = state.awake.take_from(0);
    while (lane != LaneSet::kNone) {
      run_lane(folded_rank, &state, lane);
      const std::size_t next = state.awake.take_from(lane + 1);
      lane = next != LaneSet::kNone ? next : state.awake.take_from(0);
    }
  }

  // Runs the lane's ops until one must wait.
  void run_lane(std::int32_t folded_rank, State* state, std::size_t number) {
    LaneState& lane = state->lanes[number];
    while (lane.op != kNoOp && !lane.has_arrived) {
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
        compute(folded_rank, state, &lane, ready);
      } else {
        arrive(state, &lane, state->comm_classes[op.slot], ready);
      }
    }
  }

  void compute(std::int32_t folded_rank, State* state, LaneState* lane, Nanoseconds ready) {
    const Nanoseconds end = ends_.compute_ends(folded_rank, lane->op, state->ops[lane->op], ready);
    if (end == kLater) {
      state->events[lane->op].arrive_ns = ready;
      lane->has_arrived = true;
      return;
    }
    settle(state, lane, {ready, ready, end});
    ++settled_;
  }

  // Lets the lane's op arrive at its rendezvous. The operation starts with its last member.
  void arrive(State* state, LaneState* lane, std::int32_t comm_class, Nanoseconds ready) {
    Rendezvous& rendezvous = rendezvous_[comm_class];
    state->events[lane->op].arrive_ns = ready;
    lane->has_arrived = true;
    rendezvous.start_ns = rendezvous.arrived == 0 ? ready : std::max(rendezvous.start_ns, ready);
    if (++rendezvous.arrived < static_cast<std::int32_t>(rendezvous.members.size())) return;
    rendezvous.arrived = 0;
    const Nanoseconds start = rendezvous.start_ns;
    const Nanoseconds end = ends_.operation_ends(comm_class, state->ops[lane->op], start);
    if (end == kLater) return;
    for (const auto& [other, lane_there] : rendezvous.members) {
      end_on(other, lane_there, start, end);
      if (&folded_ranks_[other].lanes[lane_there] == lane) continue;  // it is running already
      wake(other, lane_there);
    }
    ++settled_;
  }

  void end_on(std::int32_t folded_rank, std::size_t number, Nanoseconds start, Nanoseconds end) {
    State& state = folded_ranks_[folded_rank];
    LaneState& lane = state.lanes[number];
    settle(&state, &lane, {state.events[lane.op].arrive_ns, start, end});
    lane.has_arrived = false;
  }

  // Ends the lane's op, moves the lane to its next op, and wakes the lanes that wait for this op.
  void settle(State* state, LaneState* lane, const EventTimes& times) {
    const std::uint32_t op = lane->op;
    state->events[op] = times;
    if (state->settled != nullptr) state->settled[op] = settled_;
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

  Ends& ends_;
  const bool numbered_;
  std::vector<LaneLists> lists_;  // by body
  std::vector<State> folded_ranks_;
  std::vector<Rendezvous> rendezvous_;  // by communicator class
  std::vector<std::int32_t> runnable_;
  // By event: 1 + the first lane that waits for it, of a list by next_waiter; 0: none.
  std::vector<std::uint16_t> waiters_;
  Replay out_;
  std::size_t ended_ = 0;      // ops of folded ranks
  std::uint32_t settled_ = 0;  // compute ops and communications
};

}  // namespace tandem
