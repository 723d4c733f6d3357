#include "schedule/program/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "schedule/program/cycle.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// One pass over the folded ranks, each run until its lanes block, woken by the rendezvous it waits
// for.
class Replayer {
 public:
  Replayer(const Program& program, const RankFolding& folding, const Jitter& jitter)
      : program_(program),
        folding_(folding),
        jitter_(jitter),
        queues_(lane_queues(program)),
        folded_ranks_(folding.folded_ranks.size()),
        arrivals_(folding.comm_classes.size()) {
    std::size_t events = 0;
    for (std::size_t p = 0; p < folded_ranks_.size(); ++p) {
      const FoldedRank& folded = folding.folded_ranks[p];
      State& state = folded_ranks_[p];
      state.body = &program.bodies[folded.body];
      state.queues = &queues_[folded.body];
      state.comm_classes = folded.comm_classes.data();
      state.rank = folded.rank;
      state.first = events;
      out_.first.push_back(events);
      events += state.body->ops.size();
      state.lanes.resize(state.body->lanes.size());
      runnable_.push_back(static_cast<std::int32_t>(folded_ranks_.size() - 1 - p));
      state.queued = true;
    }
    out_.events.resize(events);
    out_.settled.resize(events);
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
      while (run_lanes(folded_rank)) {
      }
    }
    if (ended_ != out_.events.size()) return Error{find_cycle(), Error::BadInput};
    return std::move(out_);
  }

 private:
  struct LaneState {
    Nanoseconds end_ns = 0;
    std::uint32_t done = 0;      // ops ended
    bool at_rendezvous = false;  // the next op waits there
    bool blocked = false;        // the next op waits for the one that stands on a lane at a place
    std::uint8_t blocked_by = 0;
    std::uint32_t blocked_by_place = 0;
  };
  struct State {
    const Body* body = nullptr;
    const LaneQueues* queues = nullptr;
    const std::int32_t* comm_classes = nullptr;  // by slot
    Rank rank{};
    std::size_t first = 0;  // event
    std::vector<LaneState> lanes;
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

  bool ended(std::int32_t folded_rank, std::uint32_t op) const {
    const State& state = folded_ranks_[folded_rank];
    return state.queues->place[op] < state.lanes[state.body->ops[op].lane].done;
  }

  // Starts what can start; true if anything ended.
  bool run_lanes(std::int32_t folded_rank) {
    State& state = folded_ranks_[folded_rank];
    const Body& body = *state.body;
    const LaneQueues& queues = *state.queues;
    bool progress = false;
    for (std::size_t l = 0; l < queues.lanes.size(); ++l) {
      const std::vector<std::uint32_t>& queue = queues.lanes[l];
      LaneState& lane = state.lanes[l];
      while (lane.done < queue.size() && !lane.at_rendezvous) {
        if (lane.blocked && state.lanes[lane.blocked_by].done <= lane.blocked_by_place) break;
        const std::uint32_t i = queue[lane.done];
        const Op& op = body.ops[i];
        Nanoseconds ready = lane.end_ns;
        lane.blocked = false;
        for (const std::uint32_t wait : body.waits_of(op)) {
          lane.blocked_by = body.ops[wait].lane;
          lane.blocked_by_place = queues.place[wait];
          lane.blocked = state.lanes[lane.blocked_by].done <= lane.blocked_by_place;
          if (lane.blocked) break;
          ready = std::max(ready, out_.events[state.first + wait].end_ns);
        }
        if (lane.blocked) break;
        if (is_compute(op.kind)) {
          const Nanoseconds end = ready + jitter_.apply(op.duration_ns, index(state.rank), i);
          settle(state, lane, i, ready, ready, end);
          ++settled_;
        } else {
          arrive(folded_rank, lane, i, ready);
        }
        progress = true;
      }
    }
    return progress;
  }

  void arrive(std::int32_t folded_rank, LaneState& lane, std::uint32_t op, Nanoseconds ready) {
    const State& state = folded_ranks_[folded_rank];
    Arrivals& arrivals = arrivals_[state.comm_classes[state.body->ops[op].slot]];
    out_.events[state.first + op].arrive_ns = ready;
    lane.at_rendezvous = true;
    arrivals.last_ns = arrivals.arrived == 0 ? ready : std::max(arrivals.last_ns, ready);
    if (++arrivals.arrived < static_cast<std::int32_t>(arrivals.members.size())) return;
    arrivals.arrived = 0;
    const Nanoseconds start = arrivals.last_ns;
    for (const auto& [other, lane_there] : arrivals.members) {
      State& there = folded_ranks_[other];
      LaneState& at_lane = there.lanes[lane_there];
      const std::uint32_t at = there.queues->lanes[lane_there][at_lane.done];
      const Nanoseconds arrived = out_.events[there.first + at].arrive_ns;
      settle(there, at_lane, at, arrived, start, start + there.body->ops[at].duration_ns);
      at_lane.at_rendezvous = false;
      if (!there.queued && other != folded_rank) {
        there.queued = true;
        runnable_.push_back(other);
      }
    }
    ++settled_;
  }

  // The first op of a folded rank's lane that has not ended. REQUIRES: there is one.
  std::uint32_t next_op(std::int32_t folded_rank, std::uint8_t lane) const {
    const State& state = folded_ranks_[folded_rank];
    return state.queues->lanes[lane][state.lanes[lane].done];
  }

  void settle(const State& state, LaneState& lane, std::uint32_t op, Nanoseconds arrive,
              Nanoseconds start, Nanoseconds end) {
    out_.events[state.first + op] = {arrive, start, end};
    out_.settled[state.first + op] = settled_;
    lane.end_ns = end;
    ++lane.done;
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
      if (!ended(at.folded_rank, wait)) return {at.folded_rank, wait};
    }
    const LaneQueues& queues = queues_[folding_.folded_ranks[at.folded_rank].body];
    const std::uint32_t done = folded_ranks_[at.folded_rank].lanes[op.lane].done;
    if (queues.place[at.op] > done)
      return {at.folded_rank, queues.lanes[op.lane][queues.place[at.op] - 1]};
    const std::int32_t c = folding_.folded_ranks[at.folded_rank].comm_classes[op.slot];
    for (const auto& [other, slot] : folding_.comm_classes[c].members) {
      const std::uint8_t lane = body(other).slots[slot].lane;
      const LaneQueues& there = queues_[folding_.folded_ranks[other].body];
      const LaneState& state = folded_ranks_[other].lanes[lane];
      if (!state.at_rendezvous && state.done < there.lanes[lane].size())
        return {other, next_op(other, lane)};
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
  std::vector<LaneQueues> queues_;
  std::vector<State> folded_ranks_;
  std::vector<Arrivals> arrivals_;
  std::vector<std::int32_t> runnable_;
  Replay out_;
  std::size_t ended_ = 0;
  std::uint32_t settled_ = 0;
};

}  // namespace

Result<Replay> replay(const Program& program, const RankFolding& folding, const Jitter& jitter) {
  return Replayer(program, folding, jitter).run();
}

}  // namespace tandem
