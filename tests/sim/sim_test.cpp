// The ideal engine: bubbles in closed form, what jitter does, and compute beside communication.
#include <catch2/catch.hpp>

#include <random>

#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "sim/engines.h"
#include "tests/seed.h"
#include "tests/sim/contended_programs.h"
#include "traces/metrics.h"

using namespace tandem;

namespace {

Program uniform_program(const std::string& name, int pp, int microbatches, int vpp = 1,
                        int dp = 1) {
  const auto order = make_order({name, pp, vpp, microbatches, 0});
  REQUIRE(order.ok());
  LowerOptions options{1, dp};
  options.overlap_p2p = overlaps_p2p_by_default(*order);
  auto program = lower(*order, uniform_workload({1e-3, 2e-3, 1e-3, 1e-3}, order->stages), options);
  REQUIRE(program.ok());
  return *std::move(program);
}

Metrics played(const Program& program, const SimOptions& options = {}) {
  const auto trace = ideal(program, options);
  REQUIRE(trace.ok());
  return measure(program, *trace);
}

}  // namespace

TEST_CASE("without communication 1F1B's and GPipe's bubble is (p-1)/m") {
  for (const char* name : {"1f1b", "gpipe"}) {
    for (const auto& [p, m] : {std::pair{1, 1}, {2, 3}, {4, 8}, {7, 16}, {16, 16}, {64, 512}}) {
      INFO(name << " p " << p << " m " << m);
      const Metrics metrics = played(uniform_program(name, p, m));
      CHECK(metrics.bubble_ratio == Approx(static_cast<double>(p - 1) / m).margin(1e-9));
      CHECK(metrics.iteration_s == Approx((m + p - 1) * 3e-3).epsilon(1e-12));
    }
  }
}

TEST_CASE("without communication interleaved's bubble is (p-1)/(v m)") {
  for (const auto& [p, m, v] : {std::tuple{2, 4, 2}, {4, 8, 3}, {8, 16, 2}, {64, 512, 2}}) {
    INFO("p " << p << " m " << m << " v " << v);
    const Metrics metrics = played(uniform_program("interleaved", p, m, v));
    CHECK(metrics.bubble_ratio == Approx(static_cast<double>(p - 1) / (v * m)).margin(1e-9));
  }
}

TEST_CASE("looped BFS's bubble is that of GPipe over its chunks") {
  // All forwards of a chunk, then the next chunk: the pipeline fills once in chunk times, (p-1)/(v
  // m).
  const Metrics metrics = played(uniform_program("looped-bfs", 4, 8, 2));
  CHECK(metrics.bubble_ratio == Approx(3.0 / 16).margin(1e-9));
}

TEST_CASE("folded and unfolded agree where all ranks are equal") {
  const Program program = uniform_program("1f1b", 4, 8, 1, 3);
  SimOptions unfolded;
  unfolded.fold = false;
  const Metrics one = played(program), all = played(program, unfolded);
  CHECK(one.ranks.size() == 4);
  CHECK(all.ranks.size() == 12);
  CHECK(one.iteration_s == all.iteration_s);
  CHECK(one.bubble_ratio == Approx(all.bubble_ratio).epsilon(1e-12));
}

TEST_CASE("jitter unfolds, is seeded, and never makes a rank do less work in the mean") {
  const Program program = uniform_program("1f1b", 4, 64, 1, 2);
  SimOptions options;
  options.jitter = 0.05;
  const auto first = ideal(program, options), again = ideal(program, options);
  options.seed = 2;
  const auto other = ideal(program, options);
  REQUIRE((first.ok() && again.ok() && other.ok()));
  CHECK(first->ranks.size() == 8);
  const auto ends = [](const Trace& trace) {
    std::vector<Nanoseconds> list;
    for (const EventTimes& times : trace.events) list.push_back(times.end_ns);
    return list;
  };
  CHECK(ends(*first) == ends(*again));
  CHECK(ends(*first) != ends(*other));
  // 8 ranks x 128 factors of mean 1 and standard deviation 5 %: their mean is within 5 % /
  // sqrt(1024) x 5 of 1.
  const Metrics metrics = measure(program, *first);
  CHECK(metrics.compute_s == Approx(64 * 3e-3).epsilon(0.008));
}

TEST_CASE("random jobs: every compute op does its work at the rates that communication leaves it") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int stretched = 0;
  for (int i = 0; i < 20; ++i) {
    const int gpus = 4 + 2 * static_cast<int>(random() % 3);
    const auto cluster = Cluster::build(pairs_of_gpus(2), gpus);
    REQUIRE(cluster.ok());
    const Program program = random_device_job(*cluster, gpus, &random);
    const auto trace = ideal(program);
    REQUIRE(trace.ok());
    stretched += check_work_done(program, trace->events);
  }
  CHECK(stretched > 100);
}
