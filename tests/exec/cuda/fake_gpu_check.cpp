// The checks of one process's calls: happens-before, by a vector clock a stream.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "exec/payload/payload_layout.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"
#include "tests/exec/cuda/fake_gpu.h"

namespace tandem {
namespace {

// A local rank's op.
struct OpRef {
  std::int32_t local_rank = -1;
  std::uint32_t op = 0;
  bool operator==(const OpRef&) const = default;
};

// A place in a stream: its `position` first calls. Nothing: position 0.
struct Place {
  std::int32_t stream = 0, position = 0;
};

// By stream, how many of its calls have happened.
using VectorClock = std::vector<std::int32_t>;

class Checker {
 public:
  Checker(const Program& program, const GpuPlan& plan)
      : program_(program),
        plan_(plan),
        lanes_(lane_queues(program)),
        clocks_(plan.streams.size(), VectorClock(plan.streams.size())),
        filled_(plan.streams.size()),
        carried_(plan.streams.size()),
        event_clocks_(plan.event_streams.size()),
        recorded_(plan.event_streams.size()) {
    for (const Body& body : program.bodies) slots_.emplace_back(body);
  }

  Status run() {
    RETURN_IF_ERROR(check_shape());
    for (call_ = 0; call_ < plan_.calls.size(); ++call_) RETURN_IF_ERROR(check(plan_.calls[call_]));
    return check_end();
  }

 private:
  const Body& body(std::int32_t local_rank) const {
    return program_.body_of(plan_.local_ranks[local_rank]);
  }
  const Op& op(const OpRef& ref) const { return body(ref.local_rank).ops[ref.op]; }
  const RankRow& row(std::int32_t local_rank) const {
    return program_.ranks[index(plan_.local_ranks[local_rank])];
  }
  int communicator_of(const OpRef& ref) const {
    return row(ref.local_rank).communicators[op(ref).slot];
  }
  std::string text(const OpRef& ref) const {
    return fmt::format("{} of rank {}", describe(body(ref.local_rank), op(ref)),
                       index(plan_.local_ranks[ref.local_rank]));
  }
  std::int32_t folded_rank_of(Rank rank) const {
    const auto at = std::ranges::find(plan_.local_ranks, rank);
    return at == plan_.local_ranks.end()
               ? -1
               : static_cast<std::int32_t>(at - plan_.local_ranks.begin());
  }

  Error bad(const std::string& what) const {
    return Error{fmt::format("{}: {}", process_name(plan_), what), Error::Failed};
  }
  // Of the call that is looked at. REQUIRES: what it names exists.
  Error bad_call(const std::string& what) const {
    return bad(
        fmt::format("call {}: {}: {}", call_, describe(program_, plan_, plan_.calls[call_]), what));
  }

  // What the plan says before its calls.
  Status check_shape() {
    const int ranks = static_cast<int>(program_.ranks.size());
    for (const Rank local_rank : plan_.local_ranks) {
      if (index(local_rank) < 0 || index(local_rank) >= ranks)
        return bad("found a local rank that the Program has not");
    }
    for (const GpuStream& stream : plan_.streams) {
      if (stream.local_rank < 0 ||
          stream.local_rank >= static_cast<int>(plan_.local_ranks.size()) ||
          stream.lane >= body(stream.local_rank).lanes.size())
        return bad("found a stream of no local rank's lane");
    }
    if (plan_.streams.empty() || plan_.streams[0].local_rank != 0 || plan_.streams[0].lane != 0)
      return bad("found another stream 0, expected the first local rank's compute");
    for (std::size_t local_rank = 0; local_rank < plan_.local_ranks.size(); ++local_rank) {
      const std::size_t ops = body(static_cast<std::int32_t>(local_rank)).ops.size();
      if (plan_.op_events.size() <= local_rank || plan_.op_events[local_rank].size() != ops)
        return bad("found other op_events than one an op");
      ended_.emplace_back(ops);
      next_.emplace_back(body(static_cast<std::int32_t>(local_rank)).lanes.size());
      for (const GpuOpEvents& events : plan_.op_events[local_rank]) {
        if (!is_event(events.begin) || !is_event(events.end))
          return bad("found an op without events, expected a begin and an end");
      }
    }
    if (!is_event(plan_.gate) || !is_event(plan_.done)) return bad("found no event gate or done");
    if (plan_.calls.empty() || plan_.calls[0].verb != GpuVerb::Gate)
      return bad("found another first call, expected the gate");
    for (const GpuCommunicator& communicator : plan_.communicators)
      RETURN_IF_ERROR(check_communicator(communicator));
    return Done{};
  }

  bool is_event(std::int32_t event) const {
    return event >= 0 && event < static_cast<int>(plan_.event_streams.size());
  }

  Status check_communicator(const GpuCommunicator& listed) {
    if (listed.communicator < 0 ||
        listed.communicator >= static_cast<int>(program_.communicators.size()))
      return bad(
          fmt::format("found communicator {}, which the Program has not", listed.communicator));
    if (listed_.contains(listed.communicator))
      return bad(fmt::format("found communicator {} twice", listed.communicator));
    listed_[listed.communicator] = &listed;
    const std::vector<Rank>& members = program_.communicators[listed.communicator].members;
    int place = -1, here = 0, sms = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::int32_t local_rank = folded_rank_of(members[i]);
      if (local_rank < 0) continue;
      if (place < 0) place = static_cast<int>(i);
      ++here;
      for (const Op& each : body(local_rank).ops) {
        if (each.slot >= 0 && row(local_rank).communicators[each.slot] == listed.communicator)
          sms = std::max(sms, static_cast<int>(each.sms));
      }
    }
    const bool all_here = here == static_cast<int>(members.size());
    const int expected_place = all_here ? 0 : place;
    const int expected_members = all_here ? 1 : static_cast<int>(members.size());
    if (listed.place != expected_place || listed.members != expected_members || listed.sms != sms)
      return bad(fmt::format(
          "communicator {}: found place {} of {} with {} SMs, expected place {} of {} with {}",
          listed.communicator, listed.place, listed.members, listed.sms, expected_place,
          expected_members, sms));
    return Done{};
  }

  Status check(const GpuCall& call) {
    if (call.verb == GpuVerb::GroupBegin || call.verb == GpuVerb::GroupEnd) {
      const bool begins = call.verb == GpuVerb::GroupBegin;
      if (begins == in_group_)
        return bad(fmt::format("call {}: {}", call_,
                               begins ? "a group in a group" : "the end of no group"));
      in_group_ = begins;
      return Done{};
    }
    RETURN_IF_ERROR(check_names(call));
    if (in_group_ && call.verb != GpuVerb::Send && call.verb != GpuVerb::Recv)
      return bad_call("in a group, which holds send and recv only");
    if ((call.verb == GpuVerb::Gate) != (call_ == 0)) return bad_call("a second gate");
    if (call.verb == GpuVerb::Gate) gate_stream_ = call.stream;
    if (call.verb == GpuVerb::Wait) RETURN_IF_ERROR(wait(call));
    if (call.verb != GpuVerb::Gate && clocks_[call.stream][gate_stream_] < 1)
      return bad_call("its stream has not come behind the gate");
    ++clocks_[call.stream][call.stream];
    switch (call.verb) {
      case GpuVerb::Gate:
      case GpuVerb::Wait:
        return Done{};
      case GpuVerb::Record:
        return record(call);
      case GpuVerb::Fill:
        return fill(call);
      case GpuVerb::Check:
        return check_payload(call);
      default:
        return carry_out(call);
    }
  }

  // Streams, events, local ranks and ops exist.
  Status check_names(const GpuCall& call) const {
    const auto unknown = [&](std::string_view what, std::int64_t which) {
      return bad(fmt::format("call {}: {} of {} {}, which the plan has not", call_,
                             verb_name(call.verb), what, which));
    };
    if (call.stream < 0 || call.stream >= static_cast<int>(plan_.streams.size()))
      return unknown("stream", call.stream);
    if (call.verb == GpuVerb::Gate) return Done{};
    if (call.verb == GpuVerb::Wait || call.verb == GpuVerb::Record) {
      if (!is_event(call.event)) return unknown("event", call.event);
      return Done{};
    }
    if (call.local_rank < 0 || call.local_rank >= static_cast<int>(plan_.local_ranks.size()))
      return unknown("local rank", call.local_rank);
    if (call.op >= body(call.local_rank).ops.size()) return unknown("op", call.op);
    return Done{};
  }

  Status wait(const GpuCall& call) {
    const VectorClock& happened = event_clocks_[call.event];
    if (happened.empty())
      return bad_call("waits for an event that has not been recorded before: CUDA does nothing");
    VectorClock& clock = clocks_[call.stream];
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], happened[i]);
    return Done{};
  }

  Status record(const GpuCall& call) {
    if (plan_.event_streams[call.event] != call.stream)
      return bad_call(
          fmt::format("recorded here, expected on stream {}", plan_.event_streams[call.event]));
    if (!event_clocks_[call.event].empty()) return bad_call("recorded a second time");
    if (call.event == plan_.gate && (call.stream != gate_stream_ || call_ != 1))
      return bad_call("not right behind the gate");
    event_clocks_[call.event] = clocks_[call.stream];
    recorded_[call.event] = {call.stream, clocks_[call.stream][call.stream]};
    return Done{};
  }

  // Whether the place has happened where the stream is.
  bool after(std::int32_t stream, const Place& place) const {
    return place.position > 0 && clocks_[stream][place.stream] >= place.position;
  }

  // Fill is for the next op of the stream.
  Status fill(const GpuCall& call) {
    const OpRef ref{call.local_rank, call.op};
    if (is_compute(op(ref).kind) || op(ref).kind == OpKind::Recv)
      return bad_call("fills what nobody sends");
    if (ended_[ref.local_rank][ref.op].position > 0) return bad_call("fills what has been sent");
    if (filled_[call.stream])
      return bad_call(fmt::format("overwrites what {} is to send", text(*filled_[call.stream])));
    filled_[call.stream] = ref;
    return Done{};
  }

  // Check is of the last op of the stream.
  Status check_payload(const GpuCall& call) {
    const OpRef ref{call.local_rank, call.op};
    if (is_compute(op(ref).kind) || op(ref).kind == OpKind::Send)
      return bad_call("checks what nobody received");
    if (std::ranges::find(carried_[call.stream], ref) == carried_[call.stream].end())
      return bad_call("is not right behind its op, on the op's stream");
    return Done{};
  }

  // The ops that the call carries out: of a Move and an Emulate those of all members.
  Result<std::vector<OpRef>> carried_by(const GpuCall& call) const {
    const OpRef ref{call.local_rank, call.op};
    if (call.verb != GpuVerb::Move && call.verb != GpuVerb::Emulate) return std::vector{ref};
    const int number = communicator_of(ref);
    const std::uint32_t place = slots_[row(ref.local_rank).body].place[ref.op];
    std::vector<OpRef> refs;
    for (const Rank member : program_.communicators[number].members) {
      const std::int32_t local_rank = folded_rank_of(member);
      const std::vector<std::int32_t>& known = row(local_rank).communicators;
      const auto slot = std::ranges::find(known, number) - known.begin();
      const std::vector<std::uint32_t>& ops = slots_[row(local_rank).body].slots[slot];
      if (place >= ops.size())
        return bad_call(fmt::format("rank {} has no such op", index(member)));
      refs.push_back({local_rank, ops[place]});
    }
    return refs;
  }

  // The verb is the op's, and so are stream and communicator.
  Status check_verb(const GpuCall& call) {
    const OpRef ref{call.local_rank, call.op};
    const OpKind kind = op(ref).kind;
    const GpuStream& stream = plan_.streams[call.stream];
    const bool transfer = kind == OpKind::Send || kind == OpKind::Recv;
    bool all_here = !is_compute(kind);
    if (all_here) {
      for (const Rank member : program_.communicators[communicator_of(ref)].members)
        all_here &= folded_rank_of(member) >= 0;
    }
    GpuVerb expected = transfer ? GpuVerb::Move : GpuVerb::Emulate;
    if (!all_here) {
      expected = kind == OpKind::Send   ? GpuVerb::Send
                 : kind == OpKind::Recv ? GpuVerb::Recv
                                        : GpuVerb::Collective;
    }
    if (is_compute(kind)) expected = GpuVerb::Compute;
    if (call.verb != expected || (all_here && kind == OpKind::Recv))
      return bad_call(fmt::format("expected {}", verb_name(expected)));
    if (stream.local_rank != call.local_rank || stream.lane != op(ref).lane) {
      // Of a transfer that ends here it may be the receiver's.
      ASSIGN_OR_RETURN(const std::vector<OpRef> refs, carried_by(call));
      if (std::ranges::none_of(refs, [&](const OpRef& each) {
            return each.local_rank == stream.local_rank && op(each).lane == stream.lane;
          }))
        return bad_call("expected on the stream of its lane");
    }
    return is_compute(kind) || call.verb == GpuVerb::Emulate ? Status(Done{})
                                                             : check_message(call, ref);
  }

  // Communicator and buffers of what NCCL carries out.
  Status check_message(const GpuCall& call, const OpRef& ref) {
    const int number = communicator_of(ref);
    if (!listed_.contains(number))
      return bad_call(fmt::format("of communicator {}, which the plan does not list", number));
    const auto [used, is_new] = stream_of_.try_emplace(number, call.stream);
    if (used->second != call.stream)
      return bad_call(
          fmt::format("communicator {} is used from stream {} too", number, used->second));
    const std::vector<Rank>& members = program_.communicators[number].members;
    ASSIGN_OR_RETURN(const std::vector<OpRef> refs, carried_by(call));
    for (const OpRef& each : refs) {
      const auto own =
          std::ranges::find(members, plan_.local_ranks[each.local_rank]) - members.begin();
      const PayloadLayout pieces =
          payload_layout(op(each), static_cast<int>(members.size()), static_cast<int>(own));
      const GpuStream& stream = plan_.streams[call.stream];
      if (pieces.give_words > stream.give_words || pieces.take_words > stream.take_words)
        return bad_call(fmt::format("needs room for {} and {} words, found {} and {}",
                                    pieces.give_words, pieces.take_words, stream.give_words,
                                    stream.take_words));
    }
    return Done{};
  }

  Status carry_out(const GpuCall& call) {
    RETURN_IF_ERROR(check_verb(call));
    std::optional<OpRef>& filled = filled_[call.stream];
    if (filled && !(*filled == OpRef{call.local_rank, call.op}))
      return bad_call(fmt::format("sends what was filled in for {}", text(*filled)));
    filled.reset();
    ASSIGN_OR_RETURN(const std::vector<OpRef> refs, carried_by(call));
    for (const OpRef& ref : refs) RETURN_IF_ERROR(check_order(call, ref));
    const Place here{call.stream, clocks_[call.stream][call.stream]};
    for (const OpRef& ref : refs) ended_[ref.local_rank][ref.op] = here;
    carried_[call.stream] = refs;
    return Done{};
  }

  // The op comes after all that the Program has before it.
  Status check_order(const GpuCall& call, const OpRef& ref) {
    const Op& it = op(ref);
    const std::string who = ref.local_rank == call.local_rank ? "" : text(ref) + " ";
    const auto& lane = lanes_[row(ref.local_rank).body].lanes[it.lane];
    if (ended_[ref.local_rank][ref.op].position > 0)
      return bad_call(who + "carried out a second time");
    std::uint32_t& next = next_[ref.local_rank][it.lane];
    if (lane[next] != ref.op)
      return bad_call(fmt::format("{}is not the next op of its lane: expected {}", who,
                                  text({ref.local_rank, lane[next]})));
    const auto happened = [&](std::uint32_t before) {
      return after(call.stream, ended_[ref.local_rank][before]);
    };
    if (next > 0 && !happened(lane[next - 1]))
      return bad_call(fmt::format("{}is not ordered after {}, its predecessor on the lane", who,
                                  text({ref.local_rank, lane[next - 1]})));
    for (const std::uint32_t wait : body(ref.local_rank).waits_of(it)) {
      if (!happened(wait))
        return bad_call(fmt::format("{}is not ordered after {}, which it waits for", who,
                                    text({ref.local_rank, wait})));
    }
    if (!after(call.stream, recorded_[plan_.op_events[ref.local_rank][ref.op].begin]))
      return bad_call(who + "is not ordered after its begin");
    ++next;
    return Done{};
  }

  Status check_end() const {
    if (in_group_) return bad("found no end of the last group");
    for (std::size_t local_rank = 0; local_rank < ended_.size(); ++local_rank) {
      for (std::uint32_t i = 0; i < ended_[local_rank].size(); ++i) {
        const OpRef ref{static_cast<std::int32_t>(local_rank), i};
        const Place& place = ended_[local_rank][i];
        if (place.position == 0) return bad(fmt::format("{} is never asked for", text(ref)));
        const VectorClock& clock = event_clocks_[plan_.op_events[local_rank][i].end];
        if (clock.empty() || clock[place.stream] < place.position)
          return bad(fmt::format("the end of {} is not recorded after it", text(ref)));
      }
    }
    for (std::size_t event = 0; event < event_clocks_.size(); ++event) {
      if (event_clocks_[event].empty()) return bad(fmt::format("event {} never happens", event));
    }
    const GpuCall& last = plan_.calls.back();
    if (last.verb != GpuVerb::Record || last.event != plan_.done)
      return bad("found another last call, expected the record of done");
    for (std::size_t stream = 0; stream < clocks_.size(); ++stream) {
      if (event_clocks_[plan_.done][stream] < clocks_[stream][stream])
        return bad(fmt::format(
            "stream {} (rank {}, lane {}) is not joined into done", stream,
            index(plan_.local_ranks[plan_.streams[stream].local_rank]),
            body(plan_.streams[stream].local_rank).lanes[plan_.streams[stream].lane].name));
    }
    return Done{};
  }

  const Program& program_;
  const GpuPlan& plan_;
  const std::vector<LaneQueues> lanes_;  // by body
  std::vector<SlotQueues> slots_;        // by body
  std::size_t call_ = 0;
  std::int32_t gate_stream_ = 0;
  bool in_group_ = false;
  std::vector<VectorClock> clocks_;               // by stream
  std::vector<std::optional<OpRef>> filled_;      // by stream: for an op to come
  std::vector<std::vector<OpRef>> carried_;       // by stream: by its last op's call
  std::vector<VectorClock> event_clocks_;         // by event; empty: not recorded
  std::vector<Place> recorded_;                   // by event
  std::vector<std::vector<Place>> ended_;         // by local rank and op
  std::vector<std::vector<std::uint32_t>> next_;  // by local rank and lane: ops carried out
  std::map<int, const GpuCommunicator*> listed_;  // by communicator
  std::map<int, std::int32_t> stream_of_;         // by communicator
};

}  // namespace

SlotQueues::SlotQueues(const Body& body) : slots(body.slots.size()), place(body.ops.size()) {
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].slot < 0) continue;
    std::vector<std::uint32_t>& slot = slots[body.ops[i].slot];
    place[i] = static_cast<std::uint32_t>(slot.size());
    slot.push_back(i);
  }
}

std::string process_name(const GpuPlan& plan) {
  if (plan.local_ranks.empty()) return "nobody";
  const int first = index(plan.local_ranks.front()), last = index(plan.local_ranks.back());
  return first == last ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last);
}

Status check_calls(const Program& program, const GpuPlan& plan) {
  return Checker(program, plan).run();
}

}  // namespace tandem
