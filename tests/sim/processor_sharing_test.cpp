// Operations over the same links at once, by hand and against shares that are worked out anew
// whenever one comes or goes.
#include "sim/processor_sharing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

#include "tests/seed.h"

using namespace tandem;

namespace {

constexpr Nanoseconds kMs = 1'000'000;

struct Operation {
  Nanoseconds start_ns = 0;
  double alone_s = 0;
};

// The end of each, in order of `operations`, which come in order of time.
std::vector<Nanoseconds> ends(double load, const std::vector<Operation>& operations) {
  ProcessorSharing sharing(load);
  std::vector<Nanoseconds> end_ns(operations.size(), -1);
  const auto end_until = [&](Nanoseconds now) {
    while (!sharing.empty() && sharing.next_end_ns() <= now) {
      end_ns[sharing.next()] = sharing.next_end_ns();
      sharing.take_next();
    }
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    end_until(operations[i].start_ns);
    sharing.enter(static_cast<std::int32_t>(i), operations[i].alone_s, operations[i].start_ns);
  }
  end_until(INT64_MAX);
  return end_ns;
}

// The same in seconds, from the definition: what is left of each falls at its share of the links
// until the next one comes or goes.
std::vector<double> plain_ends(double load, const std::vector<Operation>& operations) {
  std::vector<double> end_s(operations.size());
  std::map<std::size_t, double> left;
  std::size_t coming = 0;
  for (double now = 0; coming < operations.size() || !left.empty();) {
    const double rate = std::min(1.0, 1 / (load * static_cast<double>(left.size())));
    double step = 1e9;
    if (coming < operations.size()) step = to_seconds(operations[coming].start_ns) - now;
    for (const auto& [operation, seconds] : left) step = std::min(step, seconds / rate);
    now += step;
    for (auto at = left.begin(); at != left.end();) {
      at->second -= step * rate;
      if (at->second < 1e-12) end_s[at->first] = now;
      at = at->second < 1e-12 ? left.erase(at) : std::next(at);
    }
    for (; coming < operations.size() && to_seconds(operations[coming].start_ns) <= now; ++coming)
      left[coming] = operations[coming].alone_s;
  }
  return end_s;
}

}  // namespace

TEST_CASE("operations that share links evenly, by hand") {
  using Ends = std::vector<Nanoseconds>;
  CHECK(ends(1, {{3 * kMs, 0.010}}) == Ends{13 * kMs});
  CHECK(ends(1, {{0, 0.010}, {0, 0.010}}) == Ends{20 * kMs, 20 * kMs});
  // The first has 4 ms alone and 6 of the 12 until the second, shorter one is through.
  CHECK(ends(1, {{0, 0.020}, {4 * kMs, 0.006}}) == Ends{26 * kMs, 16 * kMs});
  // A limit leaves half of the links: two do not meet, three have two thirds of their rate each.
  CHECK(ends(0.5, {{0, 0.010}, {0, 0.010}}) == Ends{10 * kMs, 10 * kMs});
  CHECK(ends(0.5, {{0, 0.010}, {0, 0.010}, {0, 0.010}}) == Ends{15 * kMs, 15 * kMs, 15 * kMs});
  // One that comes as another ends is alone.
  CHECK(ends(1, {{0, 0.010}, {10 * kMs, 0.010}}) == Ends{10 * kMs, 20 * kMs});
}

TEST_CASE("operations that leave have had their share") {
  ProcessorSharing sharing;
  sharing.enter(7, 0.020, 0);
  sharing.enter(8, 0.020, 4 * kMs);
  std::map<std::int32_t, double> had;
  sharing.leave(10 * kMs,
                [&](std::int32_t operation, double alone_s) { had[operation] = alone_s; });
  CHECK(had.at(7) == Approx(0.007));
  CHECK(had.at(8) == Approx(0.003));
  CHECK(sharing.empty());
}

TEST_CASE("random operations that share links end as their shares say") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 500; ++i) {
    const double load = i % 2 == 0 ? 1 : static_cast<double>(1 + random() % 100) / 100;
    std::vector<Operation> operations(1 + random() % 12);
    for (Operation& operation : operations)
      operation = {static_cast<Nanoseconds>(random() % (20 * kMs)),
                   1e-9 * static_cast<double>(1 + random() % (8 * kMs))};
    std::ranges::sort(operations, {}, &Operation::start_ns);
    const auto closed = ends(load, operations);
    const auto plain = plain_ends(load, operations);
    for (std::size_t k = 0; k < closed.size(); ++k)
      REQUIRE(std::abs(closed[k] - to_ns(plain[k])) <= 1);
  }
}
