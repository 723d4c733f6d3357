#include "exec/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"

namespace tandem {
namespace {

// Returns the first arrival of any rank; 0 if no rank has arrived.
Nanoseconds begin_of(const Recording& recording) {
  constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds begin = kNever;
  for (const std::vector<OwnTimes>& rank : recording) {
    for (const OwnTimes& times : rank) {
      if (times.arrive_ns >= 0) begin = std::min(begin, times.arrive_ns);
    }
  }
  return begin == kNever ? 0 : begin;
}

// Sets when one communication of `members` members started: when the last member arrived. `events`:
// of the members that have an op for it, which in a valid Program are all.
void set_start(std::vector<EventTimes*>* events, std::size_t members) {
  bool all = events->size() == members;
  Nanoseconds latest = -1;
  for (const EventTimes* event : *events) {
    all &= event->arrive_ns >= 0;
    latest = std::max(latest, event->arrive_ns);
  }
  for (EventTimes* event : *events) {
    if (event->end_ns >= 0) {
      event->start_ns = std::min(latest, event->end_ns);
    } else if (all) {
      event->start_ns = latest;
    }
  }
}

}  // namespace

Trace trace_of(const Program& program, const Recording& recording) {
  CHECK(recording.size() == program.ranks.size());
  const Nanoseconds begin = begin_of(recording);
  const auto since_begin = [begin](Nanoseconds ns) { return ns < 0 ? -1 : ns - begin; };
  Trace trace;
  for (std::size_t rank = 0; rank < recording.size(); ++rank) {
    const int body = program.ranks[rank].body;
    CHECK(recording[rank].size() == program.bodies[body].ops.size());
    trace.ranks.push_back({static_cast<Rank>(rank), body, /*multiplicity=*/1, trace.events.size()});
    for (std::size_t i = 0; i < recording[rank].size(); ++i) {
      const Nanoseconds arrive = since_begin(recording[rank][i].arrive_ns);
      const Nanoseconds end = since_begin(recording[rank][i].end_ns);
      const bool computes = is_compute(program.bodies[body].ops[i].kind);
      trace.events.push_back({arrive, computes ? arrive : -1, end});
    }
  }
  // Compute ops start on arrival, as set above. A communication starts when its last member
  // arrives. The k-th ops of a communicator's members are one communication.
  std::vector<std::vector<std::vector<std::uint32_t>>> slot_ops;  // by body and slot
  for (const Body& body : program.bodies) slot_ops.push_back(ops_by_slot(body));
  std::vector<EventTimes*> events;
  for (const CommunicatorClass& comm_class : unfold(program).comm_classes) {
    const auto ops_of = [&](const ClassMember& member) -> const std::vector<std::uint32_t>& {
      return slot_ops[trace.ranks[member.folded_rank].body][member.slot];
    };
    std::size_t operations = 0;
    for (const ClassMember& member : comm_class.members)
      operations = std::max(operations, ops_of(member).size());
    for (std::size_t k = 0; k < operations; ++k) {
      events.clear();
      for (const ClassMember& member : comm_class.members) {
        if (k < ops_of(member).size())
          events.push_back(
              &trace.events[trace.ranks[member.folded_rank].first + ops_of(member)[k]]);
      }
      set_start(&events, comm_class.members.size());
    }
  }
  return trace;
}

std::vector<std::pair<std::string, std::string>> meta_lines(const Program& program,
                                                            const RunMeta& meta) {
  return {{"backend", meta.backend},
          {"real", meta.real},
          {"ranks", fmt::format("{0} of {0}", program.ranks.size())},
          {"seed", fmt::format("{}", meta.seed)},
          {"iteration", fmt::format("{} of {}", meta.iteration, meta.iterations)},
          {"complete", meta.complete ? "yes" : "no"}};
}

}  // namespace tandem
