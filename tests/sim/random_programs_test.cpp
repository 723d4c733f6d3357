// Random Programs: what the engine makes of them is what the documents say, folded or not, written
// and read again, and every nanosecond is accounted for.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "schedule/program/program_text.h"
#include "schedule/program/validate.h"
#include "sim/engines.h"
#include "tests/folder.h"
#include "tests/seed.h"
#include "tests/sim/plain_replay.h"
#include "tests/sim/random_programs.h"
#include "traces/metrics.h"

using namespace tandem;

namespace {

// TANDEM_RANDOM_PROGRAMS: how many.
int programs() {
  const char* const text = std::getenv("TANDEM_RANDOM_PROGRAMS");
  return text == nullptr ? 500 : std::atoi(text);
}

PlainEnds ends_of(const Program& program, const Trace& trace) {
  PlainEnds ends;
  for (const RankTrace& rank : trace.ranks) {
    std::vector<Nanoseconds>& own = ends.emplace_back();
    for (const EventTimes& times : trace.events_of(program, rank)) own.push_back(times.end_ns);
  }
  return ends;
}

Program slower(Program program, int times) {
  for (Body& body : program.bodies)
    for (Op& op : body.ops) op.duration_ns *= times;
  return program;
}

Nanoseconds last(const Trace& trace) {
  Nanoseconds end = 0;
  for (const EventTimes& times : trace.events) end = std::max(end, times.end_ns);
  return end;
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
  const auto twice = ideal(slower(program, 2));
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
  for (int i = 0; i < programs(); ++i) {
    const std::uint64_t seed = (std::uint64_t{test_seed()} << 32) + static_cast<std::uint64_t>(i);
    const RandomJob job = random_job(seed);
    if (fault(program_of(job)).empty()) continue;
    const RandomJob small =
        shrunk(job, [](const RandomJob& each) { return !fault(program_of(each)).empty(); });
    const std::string path =
        (std::filesystem::temp_directory_path() / "tandem-random-program.csv").string();
    REQUIRE(write_file(path, to_text(program_of(small))).ok());
    FAIL_CHECK("TANDEM_SEED=" << test_seed() << ", Program " << i << " " << fault(program_of(small))
                              << "; shrunk, it is " << path);
    return;
  }
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
