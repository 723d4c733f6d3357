// Plans a GPU's calls in two steps. IssueOrder is list scheduling at the ops' prices: again and
// again, the local rank whose next op can begin first issues that op. CallWriter turns each op into
// calls on its lane's stream. A forward that waits for a receive, for example, becomes four: Wait
// (for the receive's end event), Record (its begin), Compute, Record (its end). Ops of one exchange
// (batched isend and irecv) are issued as one NCCL group.
#include "exec/cuda/gpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "exec/payload/payload_layout.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

struct LocalOp {
  std::int32_t local_rank = -1;  // -1: no op
  std::uint32_t op = 0;
};

// The ops that one call carries out: a single op, or the ops of all members of a communication
// between local ranks, in the order of the communicator's members (sender, then receiver).
using JointOps = std::vector<LocalOp>;

// A local rank, and a lane of its body.
using RankLane = std::pair<std::int32_t, std::uint8_t>;

// The ops of the local ranks, as both steps read them.
class OpTable {
 public:
  OpTable(const Program& program, std::span<const Rank> ranks) : program_(program), ranks_(ranks) {
    for (const Rank rank : ranks) queues_.emplace_back(program.body_of(rank));
  }

  std::int32_t ranks() const { return static_cast<std::int32_t>(ranks_.size()); }
  bool all_ranks_are_local() const { return ranks_.size() > 1; }
  const std::vector<Op>& ops(std::int32_t local_rank) const {
    return program_.body_of(ranks_[local_rank]).ops;
  }
  const Op& op(LocalOp own) const { return ops(own.local_rank)[own.op]; }
  RankLane lane(LocalOp own) const { return {own.local_rank, op(own).lane}; }
  std::uint32_t place_on_lane(LocalOp own) const { return queues_[own.local_rank].place[own.op]; }

  // Return the number of the op's communicator, its members, and the op's rank's place among them.
  std::int32_t communicator(LocalOp own) const {
    return program_.ranks[index(ranks_[own.local_rank])].communicators[op(own).slot];
  }
  const std::vector<Rank>& members(LocalOp own) const {
    return program_.communicators[communicator(own)].members;
  }
  int place(LocalOp own) const {
    const std::vector<Rank>& all = members(own);
    return static_cast<int>(std::ranges::find(all, ranks_[own.local_rank]) - all.begin());
  }

  // Calls `each` with every op that this one waits for: the op before it on its lane, and the ops
  // in its list of waits.
  template <class Each>
  void for_awaited(LocalOp own, Each each) const {
    if (const std::uint32_t place = place_on_lane(own); place > 0)
      each(LocalOp{own.local_rank, queues_[own.local_rank].lanes[op(own).lane][place - 1]});
    for (const std::uint32_t wait : program_.body_of(ranks_[own.local_rank]).waits_of(op(own)))
      each(LocalOp{own.local_rank, wait});
  }

 private:
  const Program& program_;
  std::span<const Rank> ranks_;
  std::vector<LaneQueues> queues_;  // by local rank
};

// Gives the ops in the order in which they can begin at their prices. This order matters as streams
// may share a hardware queue, where a call waits for all calls before it.
class IssueOrder {
 public:
  explicit IssueOrder(const OpTable& table) : table_(table), progress_(table.ranks()) {
    for (std::int32_t number = 0; number < table.ranks(); ++number)
      progress_[number].ends_ns.assign(table.ops(number).size(), -1);
    if (table.all_ranks_are_local()) return;  // Moves need no groups
    for (std::uint32_t i = 0; i < table.ops(0).size(); ++i) {
      const std::int32_t exchange = table.ops(0)[i].exchange;
      if (exchange >= 0) exchanges_[exchange].push_back({{0, i}});
    }
  }

  // Returns the group that is issued next: one joint op, or all transfers of an exchange. Empty:
  // all ops have been issued.
  std::vector<JointOps> next() {
    while (const std::optional<std::int32_t> first = first_to_begin()) {
      std::vector<JointOps> group = take_next(*first);
      for (const JointOps& joint : group) note_end(joint);
      if (!group.empty()) return group;
    }
    for (std::int32_t number = 0; number < table_.ranks(); ++number)
      CHECK(progress_[number].next_op == table_.ops(number).size());
    return {};
  }

 private:
  struct LocalProgress {
    std::uint32_t next_op = 0;
    bool waits_for_members = false;    // the next op has arrived; other members have not
    std::vector<Nanoseconds> ends_ns;  // by op, as priced; -1: not issued
  };

  // Returns when the last op that this one waits for has ended.
  Nanoseconds ready_ns(LocalOp own) const {
    Nanoseconds ready = 0;
    table_.for_awaited(own, [&](LocalOp other) {
      ready = std::max(ready, progress_[other.local_rank].ends_ns[other.op]);
    });
    return ready;
  }

  // Returns the local rank whose next op can begin first; nothing if none can.
  std::optional<std::int32_t> first_to_begin() const {
    std::optional<std::int32_t> first;
    Nanoseconds first_ns = 0;
    for (std::int32_t number = 0; number < table_.ranks(); ++number) {
      const LocalProgress& own = progress_[number];
      if (own.waits_for_members || own.next_op == table_.ops(number).size()) continue;
      const Nanoseconds own_ns = ready_ns({number, own.next_op});
      if (first && own_ns >= first_ns) continue;
      first = number;
      first_ns = own_ns;
    }
    return first;
  }

  // Takes a local rank's next op, and returns the group that it completes; empty: none.
  std::vector<JointOps> take_next(std::int32_t local_rank) {
    LocalProgress& progress = progress_[local_rank];
    const LocalOp own{local_rank, progress.next_op};
    const bool joins_local_ranks = table_.op(own).slot >= 0 && table_.all_ranks_are_local();
    if (joins_local_ranks) return arrive(own);
    ++progress.next_op;
    const bool went_with_exchange = progress.ends_ns[own.op] >= 0;
    if (went_with_exchange) return {};
    const auto exchange = exchanges_.find(table_.op(own).exchange);
    return exchange == exchanges_.end() ? std::vector<JointOps>{{own}} : exchange->second;
  }

  // Returns the ops of all members once that of the last one has arrived; empty: it has not.
  std::vector<JointOps> arrive(LocalOp own) {
    JointOps& joint = arrived_[table_.communicator(own)];
    joint.push_back(own);
    progress_[own.local_rank].waits_for_members = true;
    if (joint.size() < table_.members(own).size()) return {};
    std::ranges::sort(joint, {}, [&](LocalOp each) { return table_.place(each); });
    for (const LocalOp each : joint) {
      progress_[each.local_rank].waits_for_members = false;
      ++progress_[each.local_rank].next_op;
    }
    return {std::exchange(joint, {})};
  }

  void note_end(const JointOps& joint) {
    Nanoseconds begin_ns = 0;
    for (const LocalOp own : joint) begin_ns = std::max(begin_ns, ready_ns(own));
    for (const LocalOp own : joint)
      progress_[own.local_rank].ends_ns[own.op] = begin_ns + table_.op(own).duration_ns;
  }

  const OpTable& table_;
  std::vector<LocalProgress> progress_;  // by local rank
  // If one rank is local: the transfers of each exchange, by its number.
  std::map<std::int32_t, std::vector<JointOps>> exchanges_;
  // If all ranks are local: the ops that have arrived at each communicator's next operation.
  std::map<std::int32_t, JointOps> arrived_;
};

bool sends_message(GpuVerb work) {
  return work == GpuVerb::Send || work == GpuVerb::Move || work == GpuVerb::Collective;
}

bool receives_message(GpuVerb work) {
  return work == GpuVerb::Recv || work == GpuVerb::Move || work == GpuVerb::Collective;
}

// Writes the calls of ops that come in the order of their issue, and the streams and events of
// these calls.
class CallWriter {
 public:
  // Begins with the gate, on the first local rank's compute stream.
  explicit CallWriter(const OpTable& table) : table_(table) {
    for (std::int32_t number = 0; number < table.ranks(); ++number)
      plan_.op_events.emplace_back(table.ops(number).size());
    add_stream({0, 0});
    add(GpuVerb::Gate, 0);
    plan_.gate = record(0);
  }

  // Writes the calls of one joint op, or of all transfers of an exchange.
  void issue(const std::vector<JointOps>& group) {
    const bool is_exchange = group.size() > 1;
    for (const JointOps& joint : group) prepare(joint);
    if (is_exchange) add(GpuVerb::GroupBegin, stream_of(group[0][0]));
    for (const JointOps& joint : group) add(work_of(joint), stream_of(joint[0]), joint[0]);
    if (is_exchange) add(GpuVerb::GroupEnd, stream_of(group[0][0]));
    for (const JointOps& joint : group) conclude(joint);
  }

  // Makes stream 0 wait for all others, and returns the plan.
  GpuPlan finish() {
    for (std::int32_t stream = 1; stream < static_cast<std::int32_t>(plan_.streams.size());
         ++stream)
      add(GpuVerb::Wait, 0, {}, record(stream));
    plan_.done = record(0);
    return std::move(plan_);
  }

 private:
  // Returns the kind of call that does the work.
  GpuVerb work_of(const JointOps& joint) const {
    const OpKind kind = table_.op(joint[0]).kind;
    if (is_compute(kind)) return GpuVerb::Compute;
    const bool is_transfer = kind == OpKind::Send || kind == OpKind::Recv;
    const bool has_all_members = joint.size() == table_.members(joint[0]).size();
    if (has_all_members) return is_transfer ? GpuVerb::Move : GpuVerb::Emulate;
    if (!is_transfer) return GpuVerb::Collective;
    return kind == OpKind::Send ? GpuVerb::Send : GpuVerb::Recv;
  }

  // Writes the calls before the work: the waits of all members' ops, the Fill of the payload, and
  // the Record of the begin.
  void prepare(const JointOps& joint) {
    const std::int32_t stream = stream_of(joint[0]);
    for (const LocalOp own : joint)
      table_.for_awaited(own, [&](LocalOp other) { wait_for_end(stream, other); });
    const GpuVerb work = work_of(joint);
    if (sends_message(work) || receives_message(work)) enlarge(&plan_.streams[stream], joint);
    if (sends_message(work)) add(GpuVerb::Fill, stream, joint[0]);
    const std::int32_t begin = record(stream, joint[0]);
    for (const LocalOp own : joint) events(own).begin = begin;
  }

  // Writes the Record of the end and the Check of the payload.
  void conclude(const JointOps& joint) {
    const std::int32_t stream = stream_of(joint[0]);
    const std::int32_t end = record(stream, joint[0]);
    for (const LocalOp own : joint) events(own).end = end;
    if (receives_message(work_of(joint))) add(GpuVerb::Check, stream, joint.back());
  }

  // Makes the stream wait for the end of an op, unless the op runs on the same stream or an earlier
  // wait ensures it.
  void wait_for_end(std::int32_t stream, LocalOp own) {
    CHECK(events(own).begin >= 0);  // the op has been issued
    if (plan_.event_streams[events(own).begin] == stream) return;
    const std::uint32_t place = table_.place_on_lane(own);
    std::uint32_t& ended = known_ended_[stream][table_.lane(own)];
    if (place < ended) return;
    ended = place + 1;  // all before it on its lane have ended, too
    add(GpuVerb::Wait, stream, own, events(own).end);
  }

  // Makes a stream's buffers large enough for the members' messages.
  void enlarge(GpuStream* stream, const JointOps& joint) const {
    for (const LocalOp own : joint) {
      const auto members = static_cast<int>(table_.members(own).size());
      const PayloadLayout layout = payload_layout(table_.op(own), members, table_.place(own));
      stream->give_words = std::max(stream->give_words, layout.give_words);
      stream->take_words = std::max(stream->take_words, layout.take_words);
    }
  }

  // Returns the stream of the op's lane. A new stream waits for the gate event first.
  std::int32_t stream_of(LocalOp own) {
    const auto known = lane_streams_.find(table_.lane(own));
    if (known != lane_streams_.end()) return known->second;
    const std::int32_t stream = add_stream(table_.lane(own));
    add(GpuVerb::Wait, stream, {}, plan_.gate);
    return stream;
  }
  std::int32_t add_stream(RankLane lane) {
    const auto stream = static_cast<std::int32_t>(plan_.streams.size());
    plan_.streams.push_back({lane.first, lane.second});
    known_ended_.emplace_back();
    return lane_streams_[lane] = stream;
  }

  void add(GpuVerb verb, std::int32_t stream, LocalOp own = {}, std::int32_t event = -1) {
    plan_.calls.push_back({verb, stream, event, own.local_rank, own.op});
  }
  // Adds an event, and the call that records it.
  std::int32_t record(std::int32_t stream, LocalOp own = {}) {
    const auto event = static_cast<std::int32_t>(plan_.event_streams.size());
    plan_.event_streams.push_back(stream);
    add(GpuVerb::Record, stream, own, event);
    return event;
  }
  GpuOpEvents& events(LocalOp own) { return plan_.op_events[own.local_rank][own.op]; }

  const OpTable& table_;
  GpuPlan plan_;
  std::map<RankLane, std::int32_t> lane_streams_;
  // known_ended_[stream][lane] = n: the stream's waits so far ensure that the lane's first n ops
  // have ended.
  std::vector<std::map<RankLane, std::uint32_t>> known_ended_;
};

// Returns the communicators that the ops use. Local ranks count as one member, this process.
std::vector<GpuCommunicator> used_communicators(const OpTable& table) {
  std::map<std::int32_t, GpuCommunicator> used;
  for (std::int32_t number = 0; number < table.ranks(); ++number) {
    for (std::uint32_t i = 0; i < table.ops(number).size(); ++i) {
      const LocalOp own{number, i};
      if (table.op(own).slot < 0) continue;
      const auto members = static_cast<int>(table.members(own).size());
      const bool is_local = members == 1 || table.all_ranks_are_local();
      GpuCommunicator& entry = used[table.communicator(own)];
      entry.communicator = table.communicator(own);
      entry.place = is_local ? 0 : table.place(own);
      entry.members = is_local ? 1 : members;
      entry.sms = std::max(entry.sms, table.op(own).sms);
    }
  }
  std::vector<GpuCommunicator> found;
  for (const auto& [number, entry] : used) found.push_back(entry);
  return found;
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
  const OpTable table(program, local_ranks);
  IssueOrder order(table);
  CallWriter writer(table);
  for (auto group = order.next(); !group.empty(); group = order.next()) writer.issue(group);
  GpuPlan plan = writer.finish();
  plan.local_ranks.assign(local_ranks.begin(), local_ranks.end());
  plan.communicators = used_communicators(table);
  return plan;
}

std::int32_t communicator_of(const Program& program, const GpuPlan& plan, const GpuCall& call) {
  const Rank rank = plan.local_ranks[call.local_rank];
  return program.ranks[index(rank)].communicators[program.body_of(rank).ops[call.op].slot];
}

bool is_by_nccl(const GpuCall& call, GpuTransfers transfers) {
  if (call.verb == GpuVerb::Move) return transfers == GpuTransfers::Nccl;
  return sends_message(call.verb) || receives_message(call.verb);
}

std::vector<std::int32_t> nccl_communicators(const Program& program, const GpuPlan& plan,
                                             GpuTransfers transfers) {
  std::set<std::int32_t> used;
  for (const GpuCall& call : plan.calls) {
    if (is_by_nccl(call, transfers)) used.insert(communicator_of(program, plan, call));
  }
  return {used.begin(), used.end()};
}

std::vector<GpuCall> without_checks(std::span<const GpuCall> calls) {
  std::vector<GpuCall> plain(calls.begin(), calls.end());
  std::erase_if(plain, [](const GpuCall& call) {
    return call.verb == GpuVerb::Fill || call.verb == GpuVerb::Check;
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
