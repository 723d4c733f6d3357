// Random Programs: what the engine makes of them is what the documents say, folded or not, written
// and read again, and every nanosecond is accounted for.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/random.h"
#include "schedule/program/program_text.h"
#include "schedule/program/slowdown.h"
#include "schedule/program/validate.h"
#include "sim/by_replica.h"
#include "sim/drawn_durations.h"
#include "sim/engines.h"
#include "tests/folder.h"
#include "tests/made_program.h"
#include "tests/seed.h"
#include "tests/sim/plain_replay.h"
#include "tests/sim/random_cases.h"
#include "tests/sim/random_programs.h"
#include "traces/metrics.h"

using namespace tandem;

namespace {

PlainEnds ends_of(const Program& program, const Trace& trace) {
  PlainEnds ends;
  for (const RankTrace& rank : trace.ranks) {
    std::vector<Nanoseconds>& own = ends.emplace_back();
    for (const EventTimes& times : trace.events_of(program, rank)) own.push_back(times.end_ns);
  }
  return ends;
}

Nanoseconds last(const Trace& trace) {
  Nanoseconds end = 0;
  for (const EventTimes& times : trace.events) end = std::max(end, times.end_ns);
  return end;
}

bool same(const RankSplit& a, const RankSplit& b) {
  return a.rank == b.rank && a.compute_ns == b.compute_ns && a.bubble_ns == b.bubble_ns &&
         a.window_bubble_ns == b.window_bubble_ns && a.exposed_ns == b.exposed_ns &&
         a.comm_ns == b.comm_ns && a.overlap_ns == b.overlap_ns && a.sent_bytes == b.sent_bytes &&
         a.exposed_between_nodes_ns == b.exposed_between_nodes_ns &&
         a.first_start_ns == b.first_start_ns && a.last_end_ns == b.last_end_ns;
}

// With jitter, and some ranks that take longer, played replica by replica. Empty: as ideal() does.
std::string fault_by_replica(Program program, std::uint64_t seed, int threads) {
  std::vector<double> factors;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
    factors.push_back(uniform(seed + rank) < 0.2 ? 1.3 : 1);
  slow_ranks(&program, factors);
  const SimOptions noisy{.jitter = 0.2, .seed = seed};
  const auto whole = ideal(program, noisy);
  const auto played = play_by_replica(program, noisy, true, threads);
  if (!whole.ok()) return "does not end with jitter";
  if (!played) return "is not played by replica";
  const Metrics metrics = measure(program, *whole);
  if (played->iteration_ns != last(*whole)) return "takes another time by replica";
  if (played->ops != static_cast<std::int64_t>(whole->events.size())) return "has other ops";
  if (!std::ranges::equal(played->metrics.ranks, metrics.ranks, same) ||
      played->metrics.bubble_ratio != metrics.bubble_ratio ||
      played->metrics.overlap_fraction != metrics.overlap_fraction)
    return "is split otherwise by replica";
  for (const RankTrace& rank : played->trace.ranks) {
    const auto own = played->trace.events_of(program, rank);
    const auto there = whole->events_of(program, whole->ranks[index(rank.rank)]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].arrive_ns != there[i].arrive_ns || own[i].start_ns != there[i].start_ns ||
          own[i].end_ns != there[i].end_ns)
        return "has other events by replica";
    }
  }
  return "";
}

// What is wrong with a Program's times; empty: nothing.
std::string fault(const Program& program) {
  if (const Status valid = validate(program); !valid.ok())
    return "is refused: " + valid.error().text();
  SimOptions unfolded;
  unfolded.fold = false;
  const auto folded = ideal(program), whole = ideal(program, unfolded);
  if (!folded.ok() || !whole.ok()) return "does not end";
  if (ends_of(program, *whole) != PlainReplay(program).run())
    return "differs from the plain replay";
  if (last(*folded) != last(*whole)) return "takes another time when folded";
  const auto twice = ideal(times_as_long(program, 2));
  if (!twice.ok() || last(*twice) != 2 * last(*whole))
    return "is not twice as long at twice the costs";
  const Metrics metrics = measure(program, *whole);
  const Nanoseconds begin = 0;
  for (const RankSplit& split : metrics.ranks) {
    Nanoseconds all = split.compute_ns + split.bubble_ns;
    for (const Nanoseconds exposed : split.exposed_ns) all += exposed;
    if (all != last(*whole) - begin) return "has splits that do not add up to the iteration";
  }
  const Folder folder;
  const auto again = read_program(folder.with("program.csv", to_text(program)));
  if (!again.ok()) return "cannot be read again: " + again.error().text();
  return hash(*again) == hash(program) ? "" : "reads back as another one";
}

}  // namespace

TEST_CASE("random Programs: the engine agrees with a replay written from the documents alone") {
  check_random_programs(random_programs_or(500),
                        [](const RandomJob& job, std::uint64_t) { return fault(program_of(job)); });
}

TEST_CASE(
    "random Programs with noise: replica by replica is to the nanosecond what all at once is") {
  int replicated = 0;
  const int count = random_programs_or(500);
  check_random_programs(count, [&](const RandomJob& job, std::uint64_t seed) -> std::string {
    if (job.replicas == 1) return "";
    ++replicated;
    return fault_by_replica(program_of(job), seed, 1 + static_cast<int>(seed % 3));
  });
  CHECK(replicated > count / 2);
}

TEST_CASE("drawn durations are those that each op draws by itself, to the nanosecond") {
  std::string text = "ranks 0 1 2 3 4 5 6 7:";
  for (int i = 0; i < 20'000; ++i) {
    const Nanoseconds durations[] = {0, 1, 3, 999, 1'234'567, 1'000'000'007, 4'000'000'000'000};
    text += fmt::format("{} {} {}ns", i == 0 ? "" : ",", i % 11 == 0 ? "all-reduce data" : "F",
                        durations[i % 7]);
  }
  const Program program = made_program(text);
  const Body& body = program.bodies[0];
  for (const double sigma : {0.0, 1e-6, 0.05, 1.0, 3.0}) {
    const Jitter jitter{sigma, test_seed()};
    const DrawnDurations drawn(program, jitter);
    std::vector<Nanoseconds> durations(body.ops.size());
    std::size_t same = 0, ops = 0;
    for (std::int32_t rank = 0; rank < 8; ++rank) {
      drawn.draw(rank, durations.data());
      for (std::uint32_t i = 0; i < durations.size(); ++i, ++ops) {
        const Op& op = body.ops[i];
        same += durations[i] ==
                (is_compute(op.kind) ? jitter.apply(op.duration_ns, rank, i) : op.duration_ns);
      }
    }
    INFO("TANDEM_SEED=" << test_seed() << ", sigma " << sigma);
    CHECK(same == ops);
  }
}

TEST_CASE("one replica alone, equal ranks, SMs taken from compute: not played by replica") {
  RandomJob job{.ranks = 2,
                .replicas = 2,
                .events = {{.kind = OpKind::AllReduce, .ranks = {0, 1}, .duration_ns = 5},
                           {.kind = OpKind::Forward, .ranks = {0}, .duration_ns = 9}}};
  const SimOptions noisy{.jitter = 0.1};
  CHECK(play_by_replica(program_of(job), noisy, false));
  CHECK_FALSE(play_by_replica(program_of(job), {}, false));
  Program with_sms = program_of(job);
  with_sms.device.sms = 100;
  with_sms.bodies[0].ops[0].sms = 20;
  CHECK_FALSE(play_by_replica(with_sms, noisy, false));
  job.replicas = 1;
  CHECK_FALSE(play_by_replica(program_of(job), noisy, false));
}

TEST_CASE("a random Program that fails is shrunk to what it fails for") {
  const auto has_two_sends = [](const RandomJob& job) {
    return std::count_if(job.events.begin(), job.events.end(),
                         [](const RandomEvent& event) { return event.kind == OpKind::Send; }) >= 2;
  };
  int shrinks = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RandomJob job = random_job(seed);
    if (!has_two_sends(job)) continue;
    const RandomJob small = shrunk(job, has_two_sends);
    CHECK(small.events.size() == 2);
    CHECK(small.replicas == 1);
    CHECK(fault(program_of(small)).empty());
    ++shrinks;
  }
  CHECK(shrinks > 10);
}
