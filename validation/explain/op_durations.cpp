#include "validation/explain/op_durations.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replayer.h"

namespace tandem {
namespace {

// Tells the Replayer when ops end, by given durations. The Program is not folded: the Replayer's
// ranks and communicators are the Program's own.
struct GivenDurations {
  const OpDurations& durations;
  std::vector<std::uint32_t> begun;  // by communicator: its operations so far

  Nanoseconds compute_ends(std::int32_t rank, std::uint32_t number, const Op&,
                           Nanoseconds start) const {
    return start + durations.compute[rank][number];
  }
  Nanoseconds operation_ends(std::int32_t communicator, const Op&, Nanoseconds start) {
    return start + durations.comm[communicator][begun[communicator]++];
  }
};

}  // namespace

std::vector<std::uint32_t> numbers_in_slots(const Body& body) {
  std::vector<std::uint32_t> numbers(body.ops.size()), begun(body.slots.size());
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].slot >= 0) numbers[i] = begun[body.ops[i].slot]++;
  }
  return numbers;
}

OpDurations durations_of(const Program& program, const Trace& trace) {
  std::vector<const RankTrace*> played(program.bodies.size());
  std::vector<const RankTrace*> own(program.ranks.size());
  for (const RankTrace& rank : trace.ranks) {
    if (played[rank.body] == nullptr) played[rank.body] = &rank;
    own[index(rank.rank)] = &rank;
  }
  OpDurations durations;
  durations.compute.resize(program.ranks.size());
  durations.comm.resize(program.communicators.size());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const RankRow& row = program.ranks[rank];
    const Body& body = program.bodies[row.body];
    const RankTrace* from = own[rank] != nullptr ? own[rank] : played[row.body];
    CHECK(from != nullptr);
    const std::span<const EventTimes> events = trace.events_of(program, *from);
    const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
    durations.compute[rank].resize(body.ops.size());
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const Nanoseconds ns = events[i].end_ns - events[i].start_ns;
      const Op& op = body.ops[i];
      if (op.slot < 0) {
        durations.compute[rank][i] = ns;
        continue;
      }
      // The communicator's first rank gives its times.
      std::vector<Nanoseconds>& comm = durations.comm[row.communicators[op.slot]];
      if (comm.size() <= numbers[i]) comm.push_back(ns);
    }
  }
  return durations;
}

Replay replay(const Program& program, const OpDurations& durations) {
  const RankFolding folding = unfold(program);
  GivenDurations ends{durations, std::vector<std::uint32_t>(program.communicators.size())};
  Replayer<GivenDurations> replayer(program, folding, /*numbered=*/true, &ends);
  replayer.run();
  CHECK(replayer.have_all_ended());
  return replayer.take();
}

Nanoseconds replayed(const Program& program, const OpDurations& durations) {
  Nanoseconds last = 0;
  for (const EventTimes& event : replay(program, durations).events)
    last = std::max(last, event.end_ns);
  return last + durations.after;
}

}  // namespace tandem
