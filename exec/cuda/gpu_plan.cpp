// Plans a GPU's calls by list scheduling at the ops' prices: again and again, the local rank whose
// next op can begin first issues that op. A forward that waits for a receive, for example, becomes
// four calls on its stream: Wait (for the receive's end event), Record (its begin), Compute, Record
// (its end). Ops of one exchange (batched isend and irecv) are issued as one NCCL group.
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

// The ops that one call carries out: a single op, or the ops of all members of a communication
// between local ranks, in the order of its members.
using JointOps = std::vector<LocalOp>;

class GpuPlanner {
 public:
  GpuPlanner(const Program& program, std::span<const Rank> local_ranks);

  GpuPlan run();

 private:
  struct LocalRank {
    const RankRow* row = nullptr;
    const Body* body = nullptr;
    LaneQueues queues;
    std::map<std::int32_t, std::vector<std::uint32_t>> exchanges;  // by number: its transfers
    std::size_t next = 0;                                          // the next op to issue
    bool waits_for_members = false;          // its next op has arrived; other members have not
    std::vector<Nanoseconds> ends_ns;        // by op, as priced
    std::vector<std::uint32_t> issued;       // how many ops, by lane
    std::vector<std::int32_t> lane_streams;  // by lane; -1: none yet
    std::vector<std::int32_t> op_streams;    // by op; -1: not issued
    std::size_t first_lane = 0;  // the number of its first lane among the lanes of all local ranks
  };

  const Op& op(LocalOp local_op) const {
    return local_ranks_[local_op.local_rank].body->ops[local_op.op];
  }
  std::int32_t communicator(LocalOp local_op) const {
    return local_ranks_[local_op.local_rank].row->communicators[op(local_op).slot];
  }
  int members(std::int32_t number) const {
    return static_cast<int>(program_.communicators[number].members.size());
  }
  int place(std::int32_t number, LocalOp local_op) const {
    const auto& all = program_.communicators[number].members;
    return static_cast<int>(std::ranges::find(all, plan_.local_ranks[local_op.local_rank]) -
                            all.begin());
  }
  // Calls `each` with every op that this one waits for: the op before it on its lane, and the ops
  // in its list of waits.
  template <class Each>
  void for_awaited(LocalOp local_op, Each each) const {
    const LocalRank& local_rank = local_ranks_[local_op.local_rank];
    if (const std::uint32_t place = local_rank.queues.place[local_op.op]; place > 0)
      each(local_rank.queues.lanes[op(local_op).lane][place - 1]);
    for (const std::uint32_t other : local_rank.body->waits_of(op(local_op))) each(other);
  }
  GpuOpEvents& events(LocalOp local_op) {
    return plan_.op_events[local_op.local_rank][local_op.op];
  }

  void join_communicators();
  Nanoseconds ready_ns(LocalOp local_op) const;
  std::int32_t first_to_begin() const;
  void advance(std::int32_t number);
  void arrive(LocalOp local_op);
  void issue(const std::vector<JointOps>& group);

  std::int32_t add_stream(std::int32_t local_rank, std::uint8_t lane);
  std::int32_t stream_of(LocalOp local_op);
  void prepare(const JointOps& ops);
  void wait_for_end(std::int32_t stream, LocalOp local_op);
  void conclude(const JointOps& ops);
  GpuVerb verb(const JointOps& ops) const;

  void add(GpuVerb verb, std::int32_t stream, LocalOp local_op = {-1, 0}) {
    plan_.calls.push_back({verb, stream, -1, local_op.local_rank, local_op.op});
  }
  std::int32_t record(std::int32_t stream, LocalOp local_op = {-1, 0}) {
    const auto event = static_cast<std::int32_t>(plan_.event_streams.size());
    plan_.event_streams.push_back(stream);
    plan_.calls.push_back({GpuVerb::Record, stream, event, local_op.local_rank, local_op.op});
    return event;
  }
  void wait(std::int32_t stream, std::int32_t event, LocalOp local_op = {-1, 0}) {
    plan_.calls.push_back({GpuVerb::Wait, stream, event, local_op.local_rank, local_op.op});
  }

  const Program& program_;
  GpuPlan plan_;
  std::vector<LocalRank> local_ranks_;
  // By communicator, if all ranks are local: the ops that have arrived at its next operation.
  std::map<std::int32_t, JointOps> arrived_;
  std::size_t lanes_ = 0;  // of all local ranks
  // known_ended_[stream][lane]: how many of the lane's first ops are sure to have ended after the
  // waits that the stream has so far. Waiting for one of those ops again needs no call. Lanes are
  // numbered through all local ranks.
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

// Lists the communicators that local ranks' ops use.
void GpuPlanner::join_communicators() {
  std::map<std::int32_t, GpuCommunicator> joined;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(local_ranks_.size()); ++number) {
    for (std::uint32_t i = 0; i < local_ranks_[number].body->ops.size(); ++i) {
      const LocalOp local_op{number, i};
      if (op(local_op).slot < 0) continue;
      const std::int32_t own = communicator(local_op);
      const bool is_local = members(own) == 1 || local_ranks_.size() > 1;
      GpuCommunicator& entry = joined[own];
      entry.communicator = own;
      entry.place = is_local ? 0 : place(own, local_op);
      entry.members = is_local ? 1 : members(own);
      entry.sms = std::max(entry.sms, op(local_op).sms);
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

// Returns when the last op that this one waits for has ended, by prices.
Nanoseconds GpuPlanner::ready_ns(LocalOp local_op) const {
  Nanoseconds ready = 0;
  for_awaited(local_op, [&](std::uint32_t other) {
    ready = std::max(ready, local_ranks_[local_op.local_rank].ends_ns[other]);
  });
  return ready;
}

// Returns the local rank whose next op can begin first; -1: all ops have been issued. This order of
// issue matters as streams may share a hardware queue, where a call waits for all calls before it.
std::int32_t GpuPlanner::first_to_begin() const {
  std::int32_t first = -1;
  Nanoseconds first_ns = 0;
  for (std::int32_t number = 0; number < static_cast<std::int32_t>(local_ranks_.size()); ++number) {
    const LocalRank& local_rank = local_ranks_[number];
    if (local_rank.waits_for_members || local_rank.next == local_rank.body->ops.size()) continue;
    const Nanoseconds own_ns = ready_ns({number, static_cast<std::uint32_t>(local_rank.next)});
    if (first >= 0 && own_ns >= first_ns) continue;
    first = number;
    first_ns = own_ns;
  }
  return first;
}

// Issues a local rank's next op, with the other ops of its exchange.
void GpuPlanner::advance(std::int32_t number) {
  LocalRank& local_rank = local_ranks_[number];
  const LocalOp local_op{number, static_cast<std::uint32_t>(local_rank.next)};
  if (op(local_op).slot >= 0 && local_ranks_.size() > 1) return arrive(local_op);
  ++local_rank.next;
  if (local_rank.op_streams[local_op.op] >= 0) return;  // it was issued with its exchange
  std::vector<JointOps> group;
  const auto exchange = local_rank.exchanges.find(op(local_op).exchange);
  if (exchange == local_rank.exchanges.end()) {
    group = {{local_op}};
  } else {
    for (const std::uint32_t each : exchange->second) group.push_back({{number, each}});
  }
  issue(group);
}

// Issues a communication between local ranks when the op of its last member has arrived.
void GpuPlanner::arrive(LocalOp local_op) {
  const std::int32_t number = communicator(local_op);
  JointOps& ops = arrived_[number];
  ops.push_back(local_op);
  local_ranks_[local_op.local_rank].waits_for_members = true;
  if (static_cast<int>(ops.size()) < members(number)) return;
  std::ranges::sort(ops, {}, [&](LocalOp each) { return place(number, each); });
  issue({ops});
  for (const LocalOp each : ops) {
    local_ranks_[each.local_rank].waits_for_members = false;
    ++local_ranks_[each.local_rank].next;
  }
  ops.clear();
}

// Plans the calls of one joint op, or of all transfers of an exchange.
void GpuPlanner::issue(const std::vector<JointOps>& group) {
  for (const JointOps& ops : group) prepare(ops);
  if (group.size() > 1) add(GpuVerb::GroupBegin, stream_of(group[0][0]));
  for (const JointOps& ops : group) add(verb(ops), stream_of(ops[0]), ops[0]);
  if (group.size() > 1) add(GpuVerb::GroupEnd, stream_of(group[0][0]));
  for (const JointOps& ops : group) conclude(ops);
}

std::int32_t GpuPlanner::add_stream(std::int32_t local_rank, std::uint8_t lane) {
  const auto stream = static_cast<std::int32_t>(plan_.streams.size());
  plan_.streams.push_back({local_rank, lane});
  known_ended_.emplace_back(lanes_);
  return local_ranks_[local_rank].lane_streams[lane] = stream;
}

// Returns the stream of the op's lane. A new stream waits for the gate event first.
std::int32_t GpuPlanner::stream_of(LocalOp local_op) {
  const std::int32_t known = local_ranks_[local_op.local_rank].lane_streams[op(local_op).lane];
  if (known >= 0) return known;
  const std::int32_t stream = add_stream(local_op.local_rank, op(local_op).lane);
  wait(stream, plan_.gate);
  return stream;
}

// Plans the calls before the work: the waits of all members' ops, the Fill of the payload, and the
// Record of the begin.
void GpuPlanner::prepare(const JointOps& ops) {
  const std::int32_t stream = stream_of(ops[0]);
  for (const LocalOp local_op : ops) {
    for_awaited(local_op, [&](std::uint32_t other) {
      wait_for_end(stream, {local_op.local_rank, other});
    });
  }
  GpuStream& own = plan_.streams[stream];
  const GpuVerb work = verb(ops);
  if (work != GpuVerb::Compute && work != GpuVerb::Emulate) {
    const std::int32_t number = communicator(ops[0]);
    for (const LocalOp local_op : ops) {
      const PayloadLayout pieces =
          payload_layout(op(local_op), members(number), place(number, local_op));
      own.give_words = std::max(own.give_words, pieces.give_words);
      own.take_words = std::max(own.take_words, pieces.take_words);
    }
    if (work != GpuVerb::Recv) add(GpuVerb::Fill, stream, ops[0]);
  }
  const std::int32_t begin = record(stream, ops[0]);
  for (const LocalOp local_op : ops) {
    LocalRank& local_rank = local_ranks_[local_op.local_rank];
    CHECK(local_rank.queues.place[local_op.op] == local_rank.issued[op(local_op).lane]++);
    local_rank.op_streams[local_op.op] = stream;
    events(local_op).begin = begin;
  }
}

// Makes the stream wait for the end of an op, unless the op runs on the same stream or an earlier
// wait ensures it.
void GpuPlanner::wait_for_end(std::int32_t stream, LocalOp local_op) {
  const LocalRank& local_rank = local_ranks_[local_op.local_rank];
  const std::int32_t op_stream = local_rank.op_streams[local_op.op];
  CHECK(op_stream >= 0);
  std::uint32_t& known_ended = known_ended_[stream][local_rank.first_lane + op(local_op).lane];
  if (op_stream == stream || local_rank.queues.place[local_op.op] < known_ended) return;
  known_ended = local_rank.queues.place[local_op.op] + 1;
  wait(stream, events(local_op).end, local_op);
}

// Returns the kind of call that does the work.
GpuVerb GpuPlanner::verb(const JointOps& ops) const {
  const Op& own = op(ops[0]);
  if (is_compute(own.kind)) return GpuVerb::Compute;
  const bool is_transfer = own.kind == OpKind::Send || own.kind == OpKind::Recv;
  const bool has_all_members = static_cast<int>(ops.size()) == members(communicator(ops[0]));
  if (has_all_members) return is_transfer ? GpuVerb::Move : GpuVerb::Emulate;
  if (!is_transfer) return GpuVerb::Collective;
  return own.kind == OpKind::Send ? GpuVerb::Send : GpuVerb::Recv;
}

// Plans the Record of the end and the Check of the payload, and notes the priced end.
void GpuPlanner::conclude(const JointOps& ops) {
  const std::int32_t stream = stream_of(ops[0]);
  const std::int32_t end = record(stream, ops[0]);
  Nanoseconds begin_ns = 0;
  for (const LocalOp local_op : ops) begin_ns = std::max(begin_ns, ready_ns(local_op));
  for (const LocalOp local_op : ops) {
    events(local_op).end = end;
    local_ranks_[local_op.local_rank].ends_ns[local_op.op] = begin_ns + op(local_op).duration_ns;
  }
  const GpuVerb work = verb(ops);
  if (work == GpuVerb::Recv || work == GpuVerb::Move || work == GpuVerb::Collective)
    add(GpuVerb::Check, stream, ops.back());
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

std::int32_t communicator_of(const Program& program, const GpuPlan& plan, const GpuCall& call) {
  const Rank rank = plan.local_ranks[call.local_rank];
  return program.ranks[index(rank)].communicators[program.body_of(rank).ops[call.op].slot];
}

bool is_by_nccl(const GpuCall& call, GpuTransfers transfers) {
  return call.verb == GpuVerb::Send || call.verb == GpuVerb::Recv ||
         call.verb == GpuVerb::Collective ||
         (call.verb == GpuVerb::Move && transfers == GpuTransfers::Nccl);
}

std::vector<std::int32_t> nccl_communicators(const Program& program, const GpuPlan& plan,
                                             GpuTransfers transfers) {
  std::set<std::int32_t> used;
  for (const GpuCall& call : plan.calls) {
    if (is_by_nccl(call, transfers)) used.insert(communicator_of(program, plan, call));
  }
  return {used.begin(), used.end()};
}

GpuQueueUse queue_use(const Program& program, const GpuPlan& plan, GpuTransfers transfers) {
  return {static_cast<int>(plan.streams.size()),
          static_cast<int>(nccl_communicators(program, plan, transfers).size())};
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
