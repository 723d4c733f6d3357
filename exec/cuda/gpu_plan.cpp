#include "exec/cuda/gpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "exec/payload/payload_layout.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// An op of a player.
struct Part {
  std::int32_t player = 0;
  std::uint32_t op = 0;
};

// What is issued at once: an op, or all parts of a communication whose members all play here, in
// the order of its members.
using Parts = std::vector<Part>;

class Planner {
 public:
  Planner(const Program& program, std::span<const Rank> players);

  GpuPlan run();

 private:
  struct Player {
    const RankRow* row = nullptr;
    const Body* body = nullptr;
    LaneQueues queues;
    std::map<std::int32_t, std::vector<std::uint32_t>> exchanges;  // number -> its ops
    std::size_t next = 0;                                          // op to issue
    bool meets = false;                                            // it waits for its others
    std::vector<Nanoseconds> ends_ns;                              // by op, as priced
    std::vector<std::uint32_t> issued;                             // ops, by lane
    std::vector<std::int32_t> lane_streams;                        // by lane; -1: none yet
    std::vector<std::int32_t> op_streams;                          // by op; -1: not issued
    std::size_t first_lane = 0;  // its lanes among those of all players
  };

  const Op& op(Part part) const { return players_[part.player].body->ops[part.op]; }
  std::int32_t communicator(Part part) const {
    return players_[part.player].row->communicators[op(part).slot];
  }
  int members(std::int32_t number) const {
    return static_cast<int>(program_.communicators[number].members.size());
  }
  int place(std::int32_t number, Part part) const {
    const auto& all = program_.communicators[number].members;
    return static_cast<int>(std::ranges::find(all, plan_.players[part.player]) - all.begin());
  }
  GpuOpEvents& events(Part part) { return plan_.op_events[part.player][part.op]; }

  void join_communicators();
  Nanoseconds ready_ns(Part part) const;
  std::int32_t first_to_begin() const;
  void advance(std::int32_t number);
  void meet(Part part);
  void issue(const std::vector<Parts>& group);

  std::int32_t stream_of(Part part);
  void prepare(const Parts& parts);
  void wait_for(std::int32_t stream, Part part);
  void wait_for_end(std::int32_t stream, Part part);
  void act(const Parts& parts);
  void conclude(const Parts& parts);
  GpuVerb verb(const Parts& parts) const;

  void add(GpuVerb verb, std::int32_t stream, Part part = {-1, 0}) {
    plan_.calls.push_back({verb, stream, -1, part.player, part.op});
  }
  std::int32_t record(std::int32_t stream, Part part = {-1, 0}) {
    const auto event = static_cast<std::int32_t>(plan_.event_streams.size());
    plan_.event_streams.push_back(stream);
    plan_.calls.push_back({GpuVerb::Record, stream, event, part.player, part.op});
    return event;
  }
  void wait(std::int32_t stream, std::int32_t event, Part part = {-1, 0}) {
    plan_.calls.push_back({GpuVerb::Wait, stream, event, part.player, part.op});
  }

  const Program& program_;
  GpuPlan plan_;
  std::vector<Player> players_;
  std::map<std::int32_t, Parts> met_;  // by communicator all of whose members play here: who came
  std::size_t lanes_ = 0;              // of all players
  std::vector<std::vector<std::uint32_t>> seen_;  // by stream and lane: ops known to have ended
};

Planner::Planner(const Program& program, std::span<const Rank> players) : program_(program) {
  plan_.players.assign(players.begin(), players.end());
  for (const Rank rank : players) {
    const RankRow& row = program.ranks[index(rank)];
    const Body& body = program.bodies[row.body];
    Player player{.row = &row, .body = &body, .queues = LaneQueues(body)};
    player.issued.resize(body.lanes.size());
    player.lane_streams.assign(body.lanes.size(), -1);
    player.op_streams.assign(body.ops.size(), -1);
    player.ends_ns.resize(body.ops.size());
    player.first_lane = std::exchange(lanes_, lanes_ + body.lanes.size());
    plan_.op_events.emplace_back(body.ops.size());
    players_.push_back(std::move(player));
  }
  join_communicators();
  for (Player& player : players_) {
    for (std::uint32_t i = 0; i < player.body->ops.size(); ++i) {
      const Op& each = player.body->ops[i];
      if (each.exchange >= 0 && players.size() == 1) player.exchanges[each.exchange].push_back(i);
    }
  }
}

// Those that an op names.
void Planner::join_communicators() {
  std::map<std::int32_t, GpuCommunicator> joined;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(players_.size()); ++number) {
    for (std::uint32_t i = 0; i < players_[number].body->ops.size(); ++i) {
      const Part part{number, i};
      if (op(part).slot < 0) continue;
      const std::int32_t own = communicator(part);
      const bool is_whole = members(own) == 1 || players_.size() > 1;
      GpuCommunicator& entry = joined[own];
      entry.communicator = own;
      entry.place = is_whole ? 0 : place(own, part);
      entry.members = is_whole ? 1 : members(own);
      entry.sms = std::max(entry.sms, op(part).sms);
    }
  }
  for (const auto& [number, entry] : joined) plan_.communicators.push_back(entry);
}

GpuPlan Planner::run() {
  stream_of({0, 0});
  for (std::int32_t next = first_to_begin(); next >= 0; next = first_to_begin()) advance(next);
  for (const Player& player : players_) CHECK(player.next == player.body->ops.size());
  for (std::int32_t stream = 1; stream < static_cast<std::int32_t>(plan_.streams.size()); ++stream)
    wait(0, record(stream));
  plan_.done = record(0);
  return std::move(plan_);
}

// When what it waits for has ended, by prices.
Nanoseconds Planner::ready_ns(Part part) const {
  const Player& player = players_[part.player];
  const Op& own = op(part);
  Nanoseconds ready = 0;
  if (const std::uint32_t place = player.queues.place[part.op]; place > 0)
    ready = player.ends_ns[player.queues.lanes[own.lane][place - 1]];
  for (const std::uint32_t other : player.body->waits_of(own))
    ready = std::max(ready, player.ends_ns[other]);
  return ready;
}

// Players issue in the order in which their ops can begin: streams may share a queue of the device,
// and what stands in one waits for all that was asked for before. -1: all has been issued.
std::int32_t Planner::first_to_begin() const {
  std::int32_t first = -1;
  Nanoseconds first_ns = 0;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(players_.size()); ++number) {
    const Player& player = players_[number];
    if (player.meets || player.next == player.body->ops.size()) continue;
    const Nanoseconds own_ns = ready_ns({number, static_cast<std::uint32_t>(player.next)});
    if (first >= 0 && own_ns >= first_ns) continue;
    first = number;
    first_ns = own_ns;
  }
  return first;
}

// Issues a player's next op; if its other members play here, too, when the last of them comes.
void Planner::advance(std::int32_t number) {
  Player& player = players_[number];
  const Part part{number, static_cast<std::uint32_t>(player.next)};
  if (op(part).slot >= 0 && players_.size() > 1) return meet(part);
  ++player.next;
  if (player.op_streams[part.op] >= 0) return;  // with its exchange
  std::vector<Parts> group;
  const auto exchange = player.exchanges.find(op(part).exchange);
  if (exchange == player.exchanges.end()) {
    group = {{part}};
  } else {
    for (const std::uint32_t each : exchange->second) group.push_back({{number, each}});
  }
  issue(group);
}

void Planner::meet(Part part) {
  const std::int32_t number = communicator(part);
  Parts& parts = met_[number];
  parts.push_back(part);
  players_[part.player].meets = true;
  if (static_cast<int>(parts.size()) < members(number)) return;
  std::ranges::sort(parts, {}, [&](Part each) { return place(number, each); });
  issue({parts});
  for (const Part each : parts) {
    players_[each.player].meets = false;
    ++players_[each.player].next;
  }
  parts.clear();
}

void Planner::issue(const std::vector<Parts>& group) {
  for (const Parts& parts : group) prepare(parts);
  if (group.size() > 1) add(GpuVerb::GroupBegin, stream_of(group[0][0]));
  for (const Parts& parts : group) act(parts);
  if (group.size() > 1) add(GpuVerb::GroupEnd, stream_of(group[0][0]));
  for (const Parts& parts : group) conclude(parts);
}

// The stream of a lane. Stream 0 holds the gate, and each stream begins behind it.
std::int32_t Planner::stream_of(Part part) {
  Player& player = players_[part.player];
  const std::uint8_t lane = player.body->ops.empty() ? 0 : op(part).lane;
  const bool is_first = plan_.streams.empty();
  std::int32_t& stream = player.lane_streams[is_first ? 0 : lane];
  if (stream >= 0) return stream;
  stream = static_cast<std::int32_t>(plan_.streams.size());
  plan_.streams.push_back({part.player, is_first ? std::uint8_t{0} : lane});
  seen_.emplace_back(lanes_);
  if (is_first) {
    add(GpuVerb::Gate, 0);
    plan_.gate = record(0);
  } else {
    wait(stream, plan_.gate);
  }
  return stream;
}

// Up to its beginning: what it waits for, on all ranks that play here.
void Planner::prepare(const Parts& parts) {
  const std::int32_t stream = stream_of(parts[0]);
  for (const Part part : parts) wait_for(stream, part);
  GpuStream& own = plan_.streams[stream];
  const GpuVerb what = verb(parts);
  if (what != GpuVerb::Compute && what != GpuVerb::Emulate) {
    const std::int32_t number = communicator(parts[0]);
    for (const Part part : parts) {
      const Pieces pieces = pieces_of(op(part), members(number), place(number, part));
      own.give_words = std::max(own.give_words, pieces.give_words);
      own.take_words = std::max(own.take_words, pieces.take_words);
    }
    if (what != GpuVerb::Recv) add(GpuVerb::Fill, stream, parts[0]);
  }
  const std::int32_t begin = record(stream, parts[0]);
  for (const Part part : parts) {
    Player& player = players_[part.player];
    CHECK(player.queues.place[part.op] == player.issued[op(part).lane]++);
    player.op_streams[part.op] = stream;
    events(part).begin = begin;
  }
}

void Planner::wait_for(std::int32_t stream, Part part) {
  const Player& player = players_[part.player];
  const Op& own = op(part);
  if (const std::uint32_t place = player.queues.place[part.op]; place > 0)
    wait_for_end(stream, {part.player, player.queues.lanes[own.lane][place - 1]});
  for (const std::uint32_t other : player.body->waits_of(own))
    wait_for_end(stream, {part.player, other});
}

// Nothing, where the stream's order or an earlier wait says it already.
void Planner::wait_for_end(std::int32_t stream, Part part) {
  const Player& player = players_[part.player];
  const std::int32_t other = player.op_streams[part.op];
  CHECK(other >= 0);
  std::uint32_t& seen = seen_[stream][player.first_lane + op(part).lane];
  if (other == stream || player.queues.place[part.op] < seen) return;
  seen = player.queues.place[part.op] + 1;
  wait(stream, events(part).end, part);
}

GpuVerb Planner::verb(const Parts& parts) const {
  const Op& own = op(parts[0]);
  if (is_compute(own.kind)) return GpuVerb::Compute;
  const bool is_transfer = own.kind == OpKind::Send || own.kind == OpKind::Recv;
  if (static_cast<int>(parts.size()) == members(communicator(parts[0])))
    return is_transfer ? GpuVerb::Move : GpuVerb::Emulate;
  if (!is_transfer) return GpuVerb::Collective;
  return own.kind == OpKind::Send ? GpuVerb::Send : GpuVerb::Recv;
}

void Planner::act(const Parts& parts) { add(verb(parts), stream_of(parts[0]), parts[0]); }

void Planner::conclude(const Parts& parts) {
  const std::int32_t stream = stream_of(parts[0]);
  const std::int32_t end = record(stream, parts[0]);
  Nanoseconds begin_ns = 0;
  for (const Part part : parts) begin_ns = std::max(begin_ns, ready_ns(part));
  for (const Part part : parts) {
    events(part).end = end;
    players_[part.player].ends_ns[part.op] = begin_ns + op(part).duration_ns;
  }
  const GpuVerb what = verb(parts);
  if (what == GpuVerb::Recv || what == GpuVerb::Move || what == GpuVerb::Collective)
    add(GpuVerb::Check, stream, parts.back());
}

}  // namespace

std::string_view name(GpuVerb verb) {
  constexpr std::array<std::string_view, 13> kNames = {
      "gate",       "wait",    "record", "compute", "send",        "recv",     "move",
      "collective", "emulate", "fill",   "check",   "group begin", "group end"};
  return kNames[static_cast<std::size_t>(verb)];
}

const GpuCommunicator& GpuPlan::communicator(std::int32_t number) const {
  const auto found =
      std::ranges::lower_bound(communicators, number, {}, &GpuCommunicator::communicator);
  CHECK(found != communicators.end() && found->communicator == number);
  return *found;
}

GpuPlan gpu_plan(const Program& program, std::span<const Rank> players) {
  CHECK(players.size() == 1 || players.size() == program.ranks.size());
  return Planner(program, players).run();
}

std::vector<GpuCall> without_checks(std::span<const GpuCall> calls) {
  std::vector<GpuCall> plain;
  std::ranges::copy_if(calls, std::back_inserter(plain), [](const GpuCall& call) {
    return call.verb != GpuVerb::Fill && call.verb != GpuVerb::Check;
  });
  return plain;
}

std::string describe(const Program& program, const GpuPlan& plan, const GpuCall& call) {
  const GpuStream& stream = plan.streams[call.stream];
  const Rank rank = plan.players[stream.player];
  std::string text = fmt::format("stream {} (rank {}, {}): {}", call.stream, index(rank),
                                 program.body_of(rank).lanes[stream.lane].name, name(call.verb));
  if (call.event >= 0) text += fmt::format(" event {}", call.event);
  if (call.player >= 0) {
    const Body& body = program.body_of(plan.players[call.player]);
    text += fmt::format(", {}", describe(body, body.ops[call.op]));
  }
  return text;
}

}  // namespace tandem
