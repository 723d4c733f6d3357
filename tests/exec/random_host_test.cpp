// Random Programs on the host: the ops that ideal plays, each lane in its order, every rule of what
// a schedule means kept, and every payload what it should be.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "exec/host/host.h"
#include "schedule/program/validate.h"
#include "sim/engines.h"
#include "tests/sim/random_cases.h"

using namespace tandem;

namespace {

// The number of an op among those of its rank that go through the same communicator.
std::vector<std::size_t> through(const Program& program, std::size_t rank,
                                 std::int32_t communicator) {
  std::vector<std::size_t> ops;
  const Body& body = program.bodies[program.ranks[rank].body];
  for (std::size_t op = 0; op < body.ops.size(); ++op) {
    const std::int16_t slot = body.ops[op].slot;
    if (slot >= 0 && program.ranks[rank].communicators[slot] == communicator) ops.push_back(op);
  }
  return ops;
}

// A rank's own rules: an op is ready when the one before it on its lane and all that it waits for
// have ended, and takes its time at least.
std::string fault_of_rank(const Program& program, const Trace& trace, std::size_t rank) {
  const Body& body = program.bodies[trace.ranks[rank].body];
  const auto events = trace.events_of(program, trace.ranks[rank]);
  std::vector<Nanoseconds> lane_ends(body.lanes.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Op& op = body.ops[i];
    Nanoseconds ready = lane_ends[op.lane];
    for (const std::uint32_t wait : body.waits_of(op)) ready = std::max(ready, events[wait].end_ns);
    if (events[i].arrive_ns < ready)
      return fmt::format("begins op {} of rank {} too soon", i, rank);
    if (events[i].start_ns < events[i].arrive_ns ||
        events[i].end_ns < events[i].start_ns + op.duration_ns)
      return fmt::format("gives op {} of rank {} less than its time", i, rank);
    lane_ends[op.lane] = events[i].end_ns;
  }
  return "";
}

// A communication starts when the last of its members has come.
std::string fault_of_meeting(const Program& program, const Trace& trace, std::int32_t number) {
  const std::vector<Rank>& members = program.communicators[number].members;
  std::vector<std::vector<EventTimes>> met;
  for (const Rank member : members) {
    const auto events = trace.events_of(program, trace.ranks[index(member)]);
    std::vector<EventTimes>& own = met.emplace_back();
    for (const std::size_t op : through(program, index(member), number)) own.push_back(events[op]);
  }
  for (std::size_t i = 0; i < met.front().size(); ++i) {
    Nanoseconds last = 0;
    for (const auto& own : met) last = std::max(last, own.at(i).arrive_ns);
    for (const auto& own : met)
      if (own[i].start_ns < last)
        return fmt::format("begins communication {} of communicator {} before all are there", i,
                           number);
  }
  return "";
}

// What each rank checks of an iteration: all that it gets.
std::int64_t payloads(const Program& program) {
  std::int64_t all = 0;
  for (const RankRow& rank : program.ranks)
    for (const Op& op : program.bodies[rank.body].ops)
      all += op.slot >= 0 && op.kind != OpKind::Send ? 1 : 0;
  return all;
}

std::string fault(const RandomJob& job, std::uint64_t seed) {
  const Program program = with_bytes(program_of(job), seed, 5000);
  ExecOptions options;
  options.warmup = 0;
  options.iterations = 2;
  options.seed = seed;
  options.full_payload = seed % 2 == 0;
  const auto played = execute_host(program, options);
  if (!played.ok()) return "is refused: " + played.error().text();
  if (!played->failure.empty()) return "fails: " + played->failure;
  if (played->payloads_checked != options.iterations * payloads(program))
    return fmt::format("has {} payloads checked, not {}", played->payloads_checked,
                       options.iterations * payloads(program));
  SimOptions unfolded;
  unfolded.fold = false;
  const auto simulated = ideal(program, unfolded);
  if (!simulated.ok()) return "does not end";
  for (const Trace& trace : played->iterations) {
    if (trace.events.size() != simulated->events.size()) return "has other events than ideal";
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank)
      if (std::string found = fault_of_rank(program, trace, rank); !found.empty()) return found;
    for (std::size_t i = 0; i < program.communicators.size(); ++i)
      if (std::string found = fault_of_meeting(program, trace, static_cast<std::int32_t>(i));
          !found.empty())
        return found;
    for (std::size_t i = 0; i < trace.events.size(); ++i)
      if (trace.events[i].end_ns < simulated->events[i].end_ns)
        return fmt::format("ends event {} sooner than ideal", i);
  }
  return "";
}

}  // namespace

TEST_CASE("random Programs on the host keep every rule, and hold what they should") {
  check_random_programs(random_programs_or(50), fault);
}
