// Plans a GPU's calls by playing the Program at its prices: the local rank whose next op can begin
// first issues that op, until all are issued. Local ranks play in this process: one rank, or all.
// An op becomes these calls on its lane's stream: a Wait for each op of another stream that it
// waits for, a Record of its begin, its work, a Record of its end. An exchange is a group of
// transfers that NCCL launches as one.
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

// An op of a local rank.
struct LocalOp {
  std::int32_t local_rank = 0;
  std::uint32_t op = 0;
};

// Ops that are issued as one: a single op, or all parts of a communication whose members all play
// here, in the order of its members.
using LocalOps = std::vector<LocalOp>;

class GpuPlanner {
 public:
  GpuPlanner(const Program& program, std::span<const Rank> local_ranks);

  GpuPlan run();

 private:
  struct LocalRank {
    const RankRow* row = nullptr;
    const Body* body = nullptr;
    LaneQueues queues;
    std::map<std::int32_t, std::vector<std::uint32_t>> exchanges;  // number -> its transfers
    std::size_t next = 0;                                          // the next op to issue
    bool meets = false;                      // waits until all members come to its next op
    std::vector<Nanoseconds> ends_ns;        // by op, as priced
    std::vector<std::uint32_t> issued;       // ops, by lane
    std::vector<std::int32_t> lane_streams;  // by lane; -1: none yet
    std::vector<std::int32_t> op_streams;    // by op; -1: not issued
    std::size_t first_lane = 0;  // the number of its first lane among the lanes of all local ranks
  };

  const Op& op(LocalOp part) const { return local_ranks_[part.local_rank].body->ops[part.op]; }
  std::int32_t communicator(LocalOp part) const {
    return local_ranks_[part.local_rank].row->communicators[op(part).slot];
  }
  int members(std::int32_t number) const {
    return static_cast<int>(program_.communicators[number].members.size());
  }
  int place(std::int32_t number, LocalOp part) const {
    const auto& all = program_.communicators[number].members;
    return static_cast<int>(std::ranges::find(all, plan_.local_ranks[part.local_rank]) -
                            all.begin());
  }
  // Calls `each` with what the op waits for: the op before it on its lane, then its waits.
  template <class Each>
  void for_awaited(LocalOp part, Each each) const {
    const LocalRank& local_rank = local_ranks_[part.local_rank];
    if (const std::uint32_t place = local_rank.queues.place[part.op]; place > 0)
      each(local_rank.queues.lanes[op(part).lane][place - 1]);
    for (const std::uint32_t other : local_rank.body->waits_of(op(part))) each(other);
  }
  GpuOpEvents& events(LocalOp part) { return plan_.op_events[part.local_rank][part.op]; }

  void join_communicators();
  Nanoseconds ready_ns(LocalOp part) const;
  std::int32_t first_to_begin() const;
  void advance(std::int32_t number);
  void meet(LocalOp part);
  void issue(const std::vector<LocalOps>& group);

  std::int32_t add_stream(std::int32_t local_rank, std::uint8_t lane);
  std::int32_t stream_of(LocalOp part);
  void prepare(const LocalOps& parts);
  void wait_for_end(std::int32_t stream, LocalOp part);
  void conclude(const LocalOps& parts);
  GpuVerb verb(const LocalOps& parts) const;

  void add(GpuVerb verb, std::int32_t stream, LocalOp part = {-1, 0}) {
    plan_.calls.push_back({verb, stream, -1, part.local_rank, part.op});
  }
  std::int32_t record(std::int32_t stream, LocalOp part = {-1, 0}) {
    const auto event = static_cast<std::int32_t>(plan_.event_streams.size());
    plan_.event_streams.push_back(stream);
    plan_.calls.push_back({GpuVerb::Record, stream, event, part.local_rank, part.op});
    return event;
  }
  void wait(std::int32_t stream, std::int32_t event, LocalOp part = {-1, 0}) {
    plan_.calls.push_back({GpuVerb::Wait, stream, event, part.local_rank, part.op});
  }

  const Program& program_;
  GpuPlan plan_;
  std::vector<LocalRank> local_ranks_;
  // By communicator whose members all play here: the ops that have arrived at its next operation.
  std::map<std::int32_t, LocalOps> met_;
  std::size_t lanes_ = 0;  // of all local ranks
  // known_ended_[stream][lane]: how many of the lane's first ops have ended once the stream's
  // earlier waits are over. A wait for one of these needs no call. Lanes count over all local
  // ranks.
  std::vector<std::vector<std::uint32_t>> known_ended_;
};

GpuPlanner::GpuPlanner(const Program& program, std::span<const Rank> local_ranks)
    : program_(program) {
  plan_.local_ranks.assign(local_ranks.begin(), local_ranks.end());
  for (const Rank rank : local_ranks) {
    const RankRow& row = program.ranks[index(rank)];
    const Body& body = program.bodies[row.body];
    LocalRank local_rank{.row = &row, .body = &body, .queues = LaneQueues(body)};
    local_rank.issued.resize(body.lanes.size());
    local_rank.lane_streams.assign(body.lanes.size(), -1);
    local_rank.op_streams.assign(body.ops.size(), -1);
    local_rank.ends_ns.resize(body.ops.size());
    local_rank.first_lane = std::exchange(lanes_, lanes_ + body.lanes.size());
    plan_.op_events.emplace_back(body.ops.size());
    local_ranks_.push_back(std::move(local_rank));
  }
  join_communicators();
  for (LocalRank& local_rank : local_ranks_) {
    for (std::uint32_t i = 0; i < local_rank.body->ops.size(); ++i) {
      const Op& each = local_rank.body->ops[i];
      if (each.exchange >= 0 && local_ranks.size() == 1)
        local_rank.exchanges[each.exchange].push_back(i);
    }
  }
}

// Lists the communicators that ops use.
void GpuPlanner::join_communicators() {
  std::map<std::int32_t, GpuCommunicator> joined;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(local_ranks_.size()); ++number) {
    for (std::uint32_t i = 0; i < local_ranks_[number].body->ops.size(); ++i) {
      const LocalOp part{number, i};
      if (op(part).slot < 0) continue;
      const std::int32_t own = communicator(part);
      const bool is_whole = members(own) == 1 || local_ranks_.size() > 1;
      GpuCommunicator& entry = joined[own];
      entry.communicator = own;
      entry.place = is_whole ? 0 : place(own, part);
      entry.members = is_whole ? 1 : members(own);
      entry.sms = std::max(entry.sms, op(part).sms);
    }
  }
  for (const auto& [number, entry] : joined) plan_.communicators.push_back(entry);
}

GpuPlan GpuPlanner::run() {
  add_stream(0, 0);
  add(GpuVerb::Gate, 0);
  plan_.gate = record(0);
  for (std::int32_t next = first_to_begin(); next >= 0; next = first_to_begin()) advance(next);
  for (const LocalRank& local_rank : local_ranks_)
    CHECK(local_rank.next == local_rank.body->ops.size());
  for (std::int32_t stream = 1; stream < static_cast<std::int32_t>(plan_.streams.size()); ++stream)
    wait(0, record(stream));
  plan_.done = record(0);
  return std::move(plan_);
}

// Returns when what the op waits for has ended, by prices.
Nanoseconds GpuPlanner::ready_ns(LocalOp part) const {
  Nanoseconds ready = 0;
  for_awaited(part, [&](std::uint32_t other) {
    ready = std::max(ready, local_ranks_[part.local_rank].ends_ns[other]);
  });
  return ready;
}

// Returns the local rank whose next op can begin first; -1: all has been issued. Ops are issued in
// that order since streams may share a queue of the device, and a call in a queue waits for all
// calls before it.
std::int32_t GpuPlanner::first_to_begin() const {
  std::int32_t first = -1;
  Nanoseconds first_ns = 0;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(local_ranks_.size()); ++number) {
    const LocalRank& local_rank = local_ranks_[number];
    if (local_rank.meets || local_rank.next == local_rank.body->ops.size()) continue;
    const Nanoseconds own_ns = ready_ns({number, static_cast<std::uint32_t>(local_rank.next)});
    if (first >= 0 && own_ns >= first_ns) continue;
    first = number;
    first_ns = own_ns;
  }
  return first;
}

// Issues a local rank's next op. A communication whose members all play here is issued once, when
// the last of them comes to it.
void GpuPlanner::advance(std::int32_t number) {
  LocalRank& local_rank = local_ranks_[number];
  const LocalOp part{number, static_cast<std::uint32_t>(local_rank.next)};
  if (op(part).slot >= 0 && local_ranks_.size() > 1) return meet(part);
  ++local_rank.next;
  if (local_rank.op_streams[part.op] >= 0) return;  // it was issued with its exchange
  std::vector<LocalOps> group;
  const auto exchange = local_rank.exchanges.find(op(part).exchange);
  if (exchange == local_rank.exchanges.end()) {
    group = {{part}};
  } else {
    for (const std::uint32_t each : exchange->second) group.push_back({{number, each}});
  }
  issue(group);
}

void GpuPlanner::meet(LocalOp part) {
  const std::int32_t number = communicator(part);
  LocalOps& parts = met_[number];
  parts.push_back(part);
  local_ranks_[part.local_rank].meets = true;
  if (static_cast<int>(parts.size()) < members(number)) return;
  std::ranges::sort(parts, {}, [&](LocalOp each) { return place(number, each); });
  issue({parts});
  for (const LocalOp each : parts) {
    local_ranks_[each.local_rank].meets = false;
    ++local_ranks_[each.local_rank].next;
  }
  parts.clear();
}

// Plans the calls of one op, or of the transfers of an exchange.
void GpuPlanner::issue(const std::vector<LocalOps>& group) {
  for (const LocalOps& parts : group) prepare(parts);
  if (group.size() > 1) add(GpuVerb::GroupBegin, stream_of(group[0][0]));
  for (const LocalOps& parts : group) add(verb(parts), stream_of(parts[0]), parts[0]);
  if (group.size() > 1) add(GpuVerb::GroupEnd, stream_of(group[0][0]));
  for (const LocalOps& parts : group) conclude(parts);
}

std::int32_t GpuPlanner::add_stream(std::int32_t local_rank, std::uint8_t lane) {
  const auto stream = static_cast<std::int32_t>(plan_.streams.size());
  plan_.streams.push_back({local_rank, lane});
  known_ended_.emplace_back(lanes_);
  return local_ranks_[local_rank].lane_streams[lane] = stream;
}

// Returns the stream of the op's lane; a new one begins behind stream 0's gate.
std::int32_t GpuPlanner::stream_of(LocalOp part) {
  const std::int32_t known = local_ranks_[part.local_rank].lane_streams[op(part).lane];
  if (known >= 0) return known;
  const std::int32_t stream = add_stream(part.local_rank, op(part).lane);
  wait(stream, plan_.gate);
  return stream;
}

// Plans the calls before the work: the waits of all local ranks that take part, the payload, and
// the record of the begin.
void GpuPlanner::prepare(const LocalOps& parts) {
  const std::int32_t stream = stream_of(parts[0]);
  for (const LocalOp part : parts) {
    for_awaited(part, [&](std::uint32_t other) { wait_for_end(stream, {part.local_rank, other}); });
  }
  GpuStream& own = plan_.streams[stream];
  const GpuVerb work = verb(parts);
  if (work != GpuVerb::Compute && work != GpuVerb::Emulate) {
    const std::int32_t number = communicator(parts[0]);
    for (const LocalOp part : parts) {
      const PayloadLayout pieces = payload_layout(op(part), members(number), place(number, part));
      own.give_words = std::max(own.give_words, pieces.give_words);
      own.take_words = std::max(own.take_words, pieces.take_words);
    }
    if (work != GpuVerb::Recv) add(GpuVerb::Fill, stream, parts[0]);
  }
  const std::int32_t begin = record(stream, parts[0]);
  for (const LocalOp part : parts) {
    LocalRank& local_rank = local_ranks_[part.local_rank];
    CHECK(local_rank.queues.place[part.op] == local_rank.issued[op(part).lane]++);
    local_rank.op_streams[part.op] = stream;
    events(part).begin = begin;
  }
}

// Has the stream wait for the end of an op, unless its order or an earlier wait ensures that
// already.
void GpuPlanner::wait_for_end(std::int32_t stream, LocalOp part) {
  const LocalRank& local_rank = local_ranks_[part.local_rank];
  const std::int32_t op_stream = local_rank.op_streams[part.op];
  CHECK(op_stream >= 0);
  std::uint32_t& known_ended = known_ended_[stream][local_rank.first_lane + op(part).lane];
  if (op_stream == stream || local_rank.queues.place[part.op] < known_ended) return;
  known_ended = local_rank.queues.place[part.op] + 1;
  wait(stream, events(part).end, part);
}

// Returns the call that does the work. If all members play here, a transfer is a Move and a
// collective is emulated.
GpuVerb GpuPlanner::verb(const LocalOps& parts) const {
  const Op& own = op(parts[0]);
  if (is_compute(own.kind)) return GpuVerb::Compute;
  const bool is_transfer = own.kind == OpKind::Send || own.kind == OpKind::Recv;
  if (static_cast<int>(parts.size()) == members(communicator(parts[0])))
    return is_transfer ? GpuVerb::Move : GpuVerb::Emulate;
  if (!is_transfer) return GpuVerb::Collective;
  return own.kind == OpKind::Send ? GpuVerb::Send : GpuVerb::Recv;
}

// Plans the record of the end and the check of the payload. Prices when the op ends.
void GpuPlanner::conclude(const LocalOps& parts) {
  const std::int32_t stream = stream_of(parts[0]);
  const std::int32_t end = record(stream, parts[0]);
  Nanoseconds begin_ns = 0;
  for (const LocalOp part : parts) begin_ns = std::max(begin_ns, ready_ns(part));
  for (const LocalOp part : parts) {
    events(part).end = end;
    local_ranks_[part.local_rank].ends_ns[part.op] = begin_ns + op(part).duration_ns;
  }
  const GpuVerb work = verb(parts);
  if (work == GpuVerb::Recv || work == GpuVerb::Move || work == GpuVerb::Collective)
    add(GpuVerb::Check, stream, parts.back());
}

}  // namespace

std::string_view verb_name(GpuVerb verb) {
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

GpuPlan gpu_plan(const Program& program, std::span<const Rank> local_ranks) {
  CHECK(local_ranks.size() == 1 || local_ranks.size() == program.ranks.size());
  return GpuPlanner(program, local_ranks).run();
}

bool is_by_nccl(const GpuCall& call, GpuTransfers transfers) {
  return call.verb == GpuVerb::Send || call.verb == GpuVerb::Recv ||
         call.verb == GpuVerb::Collective ||
         (call.verb == GpuVerb::Move && transfers == GpuTransfers::Nccl);
}

GpuQueueUse queue_use(const Program& program, const GpuPlan& plan, GpuTransfers transfers) {
  std::set<std::int32_t> used;
  for (const GpuCall& call : plan.calls) {
    if (!is_by_nccl(call, transfers)) continue;
    const Rank rank = plan.local_ranks[call.local_rank];
    used.insert(program.ranks[index(rank)].communicators[program.body_of(rank).ops[call.op].slot]);
  }
  return {static_cast<int>(plan.streams.size()), static_cast<int>(used.size())};
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
  const Rank rank = plan.local_ranks[stream.local_rank];
  std::string text =
      fmt::format("stream {} (rank {}, {}): {}", call.stream, index(rank),
                  program.body_of(rank).lanes[stream.lane].name, verb_name(call.verb));
  if (call.event >= 0) text += fmt::format(" event {}", call.event);
  if (call.local_rank >= 0) {
    const Body& body = program.body_of(plan.local_ranks[call.local_rank]);
    text += fmt::format(", {}", describe(body, body.ops[call.op]));
  }
  return text;
}

}  // namespace tandem
