#include "schedule/program/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// One pass over the players, each run until its lanes block, woken by the rendezvous it waits for.
class Replayer {
 public:
  Replayer(const Program& program, const Cast& cast, const Jitter& jitter)
      : program_(program),
        cast_(cast),
        jitter_(jitter),
        queues_(lane_queues(program)),
        players_(cast.players.size()),
        meetings_(cast.channels.size()) {
    std::size_t events = 0;
    for (std::size_t p = 0; p < players_.size(); ++p) {
      const Body& body = program.bodies[cast.players[p].body];
      out_.first.push_back(events);
      events += body.ops.size();
      players_[p].done.resize(body.lanes.size());
      players_[p].waiting.resize(body.lanes.size());
      players_[p].lane_end.resize(body.lanes.size());
      runnable_.push_back(static_cast<std::int32_t>(players_.size() - 1 - p));
      players_[p].queued = true;
    }
    out_.events.resize(events);
    out_.settled.resize(events);
  }

  Result<Replay> run() {
    while (!runnable_.empty()) {
      const std::int32_t player = runnable_.back();
      runnable_.pop_back();
      players_[player].queued = false;
      while (run_lanes(player)) {
      }
    }
    if (ended_ != out_.events.size()) return Error{find_cycle(), Error::BadInput};
    return std::move(out_);
  }

 private:
  struct State {
    std::vector<std::uint32_t> done;    // ops ended, by lane
    std::vector<std::uint8_t> waiting;  // the lane's next op waits at its rendezvous
    std::vector<Nanoseconds> lane_end;
    bool queued = false;
  };
  struct Meeting {
    std::int32_t arrived = 0;
    Nanoseconds last_ns = 0;
  };

  const Body& body(std::int32_t player) const {
    return program_.bodies[cast_.players[player].body];
  }

  bool ended(std::int32_t player, std::uint32_t op) const {
    return queues_[cast_.players[player].body].place[op] <
           players_[player].done[body(player).ops[op].lane];
  }

  // Starts what can start; true if anything ended.
  bool run_lanes(std::int32_t player) {
    State& state = players_[player];
    const Body& ops = body(player);
    const LaneQueues& queues = queues_[cast_.players[player].body];
    bool progress = false;
    for (std::size_t lane = 0; lane < queues.lanes.size(); ++lane) {
      const std::vector<std::uint32_t>& queue = queues.lanes[lane];
      while (state.done[lane] < queue.size() && !state.waiting[lane]) {
        const std::uint32_t i = queue[state.done[lane]];
        const Op& op = ops.ops[i];
        Nanoseconds ready = state.lane_end[lane];
        bool blocked = false;
        for (const std::uint32_t wait : ops.waits_of(op)) {
          if (!ended(player, wait)) {
            blocked = true;
            break;
          }
          ready = std::max(ready, out_.events[out_.first[player] + wait].end_ns);
        }
        if (blocked) break;
        if (is_compute(op.kind)) {
          const Rank rank = cast_.players[player].rank;
          settle(player, i, ready, ready, ready + jitter_.apply(op.duration_ns, index(rank), i));
          ++settled_;
        } else {
          arrive(player, i, ready);
        }
        progress = true;
      }
    }
    return progress;
  }

  void arrive(std::int32_t player, std::uint32_t op, Nanoseconds ready) {
    const std::int32_t c = cast_.players[player].channels[body(player).ops[op].slot];
    const Channel& channel = cast_.channels[c];
    Meeting& meeting = meetings_[c];
    out_.events[out_.first[player] + op].arrive_ns = ready;
    players_[player].waiting[body(player).ops[op].lane] = 1;
    meeting.last_ns = meeting.arrived == 0 ? ready : std::max(meeting.last_ns, ready);
    if (++meeting.arrived < static_cast<std::int32_t>(channel.seats.size())) return;
    meeting.arrived = 0;
    const Nanoseconds start = meeting.last_ns;
    for (const auto& [other, slot] : channel.seats) {
      const std::uint32_t at = next_op(other, body(other).slots[slot].lane);
      const Op& op_there = body(other).ops[at];
      const Nanoseconds arrived = out_.events[out_.first[other] + at].arrive_ns;
      settle(other, at, arrived, start, start + op_there.duration_ns);
      players_[other].waiting[op_there.lane] = 0;
      if (!players_[other].queued && other != player) {
        players_[other].queued = true;
        runnable_.push_back(other);
      }
    }
    ++settled_;
  }

  // The first op of a player's lane that has not ended. REQUIRES: there is one.
  std::uint32_t next_op(std::int32_t player, std::uint8_t lane) const {
    return queues_[cast_.players[player].body].lanes[lane][players_[player].done[lane]];
  }

  void settle(std::int32_t player, std::uint32_t op, Nanoseconds arrive, Nanoseconds start,
              Nanoseconds end) {
    const std::uint8_t lane = body(player).ops[op].lane;
    out_.events[out_.first[player] + op] = {arrive, start, end};
    out_.settled[out_.first[player] + op] = settled_;
    players_[player].lane_end[lane] = end;
    ++players_[player].done[lane];
    ++ended_;
  }

  struct Place {
    std::int32_t player = -1;
    std::uint32_t op = 0;
    bool operator==(const Place&) const = default;
  };

  // What the op waits for: a wait, the op before it on its lane, or a participant that has not
  // come.
  Place blocker(const Place& at) const {
    const Body& ops = body(at.player);
    const Op& op = ops.ops[at.op];
    for (const std::uint32_t wait : ops.waits_of(op)) {
      if (!ended(at.player, wait)) return {at.player, wait};
    }
    const LaneQueues& queues = queues_[cast_.players[at.player].body];
    const std::uint32_t done = players_[at.player].done[op.lane];
    if (queues.place[at.op] > done)
      return {at.player, queues.lanes[op.lane][queues.place[at.op] - 1]};
    const std::int32_t c = cast_.players[at.player].channels[op.slot];
    for (const auto& [other, slot] : cast_.channels[c].seats) {
      const std::uint8_t lane = body(other).slots[slot].lane;
      const LaneQueues& there = queues_[cast_.players[other].body];
      if (!players_[other].waiting[lane] && players_[other].done[lane] < there.lanes[lane].size())
        return {other, next_op(other, lane)};
    }
    return {};  // a participant has no such op at all: validate() finds that
  }

  std::string find_cycle() const {
    std::vector<Place> path;
    for (std::int32_t p = 0; path.empty() && p < static_cast<std::int32_t>(players_.size()); ++p) {
      for (std::uint32_t op = 0; path.empty() && op < body(p).ops.size(); ++op) {
        if (!ended(p, op)) path.push_back({p, op});
      }
    }
    for (;;) {
      const Place next = blocker(path.back());
      if (next.player < 0)
        return fmt::format("found {} waiting for a participant that never comes, expected one",
                           text(path.back()));
      const auto seen = std::find(path.begin(), path.end(), next);
      if (seen == path.end()) {
        path.push_back(next);
        continue;
      }
      std::string cycle;
      for (auto it = seen; it != path.end(); ++it) cycle += text(*it) + " waits for ";
      return fmt::format("found a deadlock, expected an order that ends: {}{}", cycle, text(*seen));
    }
  }

  std::string text(const Place& place) const {
    return fmt::format("{} on rank {}",
                       describe(body(place.player), body(place.player).ops[place.op]),
                       index(cast_.players[place.player].rank));
  }

  const Program& program_;
  const Cast& cast_;
  const Jitter jitter_;
  std::vector<LaneQueues> queues_;
  std::vector<State> players_;
  std::vector<Meeting> meetings_;
  std::vector<std::int32_t> runnable_;
  Replay out_;
  std::size_t ended_ = 0;
  std::uint32_t settled_ = 0;
};

}  // namespace

Result<Replay> replay(const Program& program, const Cast& cast, const Jitter& jitter) {
  return Replayer(program, cast, jitter).run();
}

}  // namespace tandem
