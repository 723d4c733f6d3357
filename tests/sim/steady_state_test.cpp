// What makes rounds repeat: Programs made by hand whose shortest way changes after some rounds.
#include "sim/steady_state.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/engines.h"
#include "tests/made_program.h"

using namespace tandem;

namespace {

constexpr int kAhead = 10;

// Two ranks that do the same: rounds of two forwards of 1 ns and an all-reduce of 2 ns, behind
// `kAhead` that fill, of which the last all-reduce takes 42 ns. Each round's second forward waits
// for the all-reduce of `kAhead` rounds before it: in the first nine for one that has long ended,
// in the next for that of 42 ns.
Program rounds_of(int count) {
  std::string text;
  for (int round = -kAhead; round < count; ++round)
    text += fmt::format("ranks 0 1: F{0} 1ns, F{0} 1ns{1}, all-reduce{0} tensor 8B {2}ns\n",
                        kAhead + round, round < 0 ? "" : fmt::format(" after all-reduce{}", round),
                        round == -1 ? 42 : 2);
  return made_program(text + "ranks 0 1: optimizer 100ns");
}

// The iteration of so many rounds, from a program of `few` and one of a round more; nothing where
// they are not steady.
std::optional<Nanoseconds> from_few(int few, int rounds) {
  const Program shorter = rounds_of(few), longer = rounds_of(few + 1);
  const auto short_trace = ideal(shorter), long_trace = ideal(longer);
  REQUIRE((short_trace.ok() && long_trace.ok()));
  const PlayedProgram less = measured(shorter, *short_trace), more = measured(longer, *long_trace);
  if (!is_steady(less, more, *long_trace, 1)) return std::nullopt;
  return with_rounds(less, more, rounds - few - 1).iteration_ns;
}

Nanoseconds whole(int rounds) {
  const Program program = rounds_of(rounds);
  const auto trace = ideal(program);
  REQUIRE(trace.ok());
  return measured(program, *trace).iteration_ns;
}

}  // namespace

TEST_CASE("rounds that wait for what lies before all rounds repeat only once none does") {
  // Nine rounds of 2 ns after ten; then a forward waits until the 60th, and all are 2 ns apart
  // again.
  CHECK(whole(8) == 2 * (kAhead + 8) + 100);
  CHECK(whole(60) == 60 + 1 + 2 * 50 + 100);
  for (const int few : {4, 8}) CHECK_FALSE(from_few(few, 60));
  const auto found = from_few(40, 60);
  REQUIRE(found);
  CHECK(*found == whole(60));
}
