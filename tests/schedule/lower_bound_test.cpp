// Lower bounds: below every order's makespan, and reached where brute force finds the best one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "schedule/order/lower_bound.h"
#include "schedule/order/order_replay.h"
#include "tests/schedule/best_makespan.h"
#include "tests/schedule/golden_rows.h"
#include "tests/seed.h"

namespace tandem {
namespace {

constexpr double kRounding = 1e-9;

Order make(const OrderSpec& spec) {
  auto order = make_order(spec);
  INFO((order.ok() ? "" : order.error().text()));
  REQUIRE(order.ok());
  return *order;
}

LowerBound bound_of(const Order& order, const std::vector<OrderCosts>& stages) {
  return lower_bound(bound_problem(order, stages));
}

double above(const Order& order, const std::vector<OrderCosts>& stages) {
  return replay_queued(order, stages).makespan / bound_of(order, stages).makespan - 1;
}

std::vector<OrderCosts> random_costs(int stages, double transfer, std::mt19937* random) {
  std::uniform_int_distribution<int> tenths(10, 30);
  std::vector<OrderCosts> costs;
  for (int s = 0; s < stages; ++s)
    costs.push_back(
        {tenths(*random) / 10.0, tenths(*random) / 10.0, tenths(*random) / 10.0, transfer});
  return costs;
}

// An order by name, of any size that it can have.
OrderSpec random_spec(std::mt19937* random, int most_ranks, int most_microbatches) {
  const auto draw = [random](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(*random);
  };
  while (true) {
    const OrderTraits& order = named_orders()[draw(0, static_cast<int>(named_orders().size()) - 1)];
    OrderSpec spec{std::string(order.name), draw(1, most_ranks), 1, draw(1, most_microbatches)};
    spec.vpp = order.placement.vpp > 0 ? order.placement.vpp : draw(order.least_vpp, 3);
    if (check_order(spec).ok()) return spec;
  }
}

// The same order with neighbours on a rank swapped at random, as long as it stays valid.
Order shuffled(Order order, std::mt19937* random) {
  for (int swap = 0; swap < 40; ++swap) {
    std::vector<Action>& actions = order.ranks[(*random)() % order.ranks.size()];
    if (actions.size() < 2) continue;
    const std::size_t at = (*random)() % (actions.size() - 1);
    if (actions[at].with_next || actions[at + 1].with_next || (at > 0 && actions[at - 1].with_next))
      continue;
    std::swap(actions[at], actions[at + 1]);
    if (!validate(order).ok()) std::swap(actions[at], actions[at + 1]);
  }
  return order;
}

}  // namespace

TEST_CASE("a rank's work, with its way in, bounds zero-bubble orders, and they reach it") {
  // 4 ranks, 8 microbatches of F = I = W = 1: the last rank begins behind three forwards and works
  // 24. zb1p may hold 4 activations a rank, and fills the rest with W.
  const Order order = make({.name = "zb2p", .pp = 4, .microbatches = 8});
  const std::vector<OrderCosts> stages(4, OrderCosts{1, 1, 1, 0});
  const LowerBound bound = bound_of(order, stages);
  CHECK(bound.makespan == 27);
  CHECK(bound.kind == BoundKind::Work);
  CHECK(bound.rank == 3);
  CHECK(replay_stages(order, stages).makespan == 27);
}

TEST_CASE("one microbatch's way is the bound of one microbatch") {
  // Forward 1 + 2 + 3, back 2 + 1 + 4, the first stage's weight gradient 5; transfers 4 x 0.5.
  const Order order = make({.name = "zb1p", .pp = 3, .microbatches = 1});
  const std::vector<OrderCosts> stages = {{1, 4, 5, 0.5}, {2, 1, 1, 0.5}, {3, 2, 1, 0.5}};
  const LowerBound bound = bound_of(order, stages);
  CHECK(bound.makespan == 6 + 7 + 5 + 4 * 0.5);
  CHECK(bound.kind == BoundKind::Path);
  CHECK(replay_stages(order, stages).makespan == bound.makespan);
}

TEST_CASE("a long way behind a rank's last input gradient counts, whatever the weights' wait") {
  // The last of three ranks is slow: 4 x (F 5 + I 5) between F 2 x 1 before it and I 2 x 1 behind,
  // then the first stage's W 1; its own 4 W of 1 fit beside none of that, as 4 < 3.
  const Order order = make({.name = "zb2p", .pp = 3, .microbatches = 4});
  const std::vector<OrderCosts> stages = {{1, 1, 1, 0}, {1, 1, 1, 0}, {5, 5, 0.5, 0}};
  const LowerBound bound = bound_of(order, stages);
  CHECK(bound.makespan == 2 + 4 * 10 + 2 + 1);
  CHECK(bound.kind == BoundKind::Work);
  CHECK(bound.rank == 2);
}

TEST_CASE("with one activation a rank the pipeline is no pipeline") {
  // A microbatch is held on the first of 3 ranks from its F to its I: 3 F + 3 I = 6. One at a
  // time: 4 x 6, and the last W.
  Order order = make({.name = "zb1p", .pp = 3, .microbatches = 4});
  BoundProblem problem = bound_problem(order, std::vector<OrderCosts>(3, OrderCosts{1, 1, 1, 0}));
  for (RankFloor& rank : problem.ranks) rank.memory = 1;
  const LowerBound bound = lower_bound(problem);
  CHECK(bound.makespan == 4 * 6 + 1);
  CHECK(bound.kind == BoundKind::Memory);
  CHECK(bound.rank == 0);
}

TEST_CASE("transfers that queue on an edge bound what goes over it") {
  // 5 activations of 4 each over the first edge, behind F 1, before F 1, I 1, back 4, I 1, W 1.
  Order order = make({.name = "gpipe", .pp = 2, .microbatches = 5});
  BoundProblem problem = bound_problem(order, std::vector<OrderCosts>(2, OrderCosts{1, 1, 1, 4}));
  const LowerBound bound = lower_bound(problem);
  CHECK(bound.makespan == 1 + 5 * 4 + 1 + 1 + 4 + 1 + 1);
  CHECK(bound.kind == BoundKind::Transfers);
}

TEST_CASE("what stands behind a rank's last gradient is added to its work") {
  // Rank 1: way in 1, work 4 x 3, its last reduction 2, the optimizer 3.
  Order order = make({.name = "zb2p", .pp = 2, .microbatches = 4});
  BoundProblem problem = bound_problem(order, std::vector<OrderCosts>(2, OrderCosts{1, 1, 1, 0}));
  for (StageFloor& stage : problem.stages) stage.reduced = 2;
  for (RankFloor& rank : problem.ranks) rank.finish = 3;
  CHECK(lower_bound(problem).makespan == 1 + 4 * 3 + 2 + 3);
  // Parameters that come late are part of the way in.
  problem.stages[1].ready = 5;
  CHECK(lower_bound(problem).makespan == 5 + 4 * 3 + 2 + 3);
  // Reductions of a rank go one behind the other, behind all microbatches but one at least.
  problem.ranks[1].reductions = 50;
  const LowerBound bound = lower_bound(problem);
  CHECK(bound.makespan == 5 + 3 * 3 + 1 + 50 + 3);
  CHECK(bound.kind == BoundKind::Reductions);
}

TEST_CASE("no golden order ends before its bound") {
  for (const GoldenRow& row : golden_rows()) {
    INFO(row.spec.name << " against " << row.file << ", I = " << row.spec.costs.input);
    const Order order = make(row.spec);
    const std::vector<OrderCosts> stages(order.stages, row.spec.costs);
    CHECK(above(order, stages) >= -kRounding);
    // The reference's own, under its own memory.
    BoundProblem problem = bound_problem(order, stages);
    for (RankFloor& rank : problem.ranks) rank.memory = row.peak_live;
    CHECK(lower_bound(problem).makespan <= row.makespan * (1 + kRounding));
  }
}

TEST_CASE("no order ends before its bound, whatever its costs, its shuffling and its memory") {
  std::mt19937 random(test_seed());
  INFO("seed " << test_seed());
  std::map<BoundKind, int> kinds;
  for (int i = 0; i < 600; ++i) {
    OrderSpec spec = random_spec(&random, 6, 12);
    const double transfer = std::array{0.0, 0.5, 1.0, 5.0}[random() % 4];
    const int stages = spec.pp * spec.vpp * traits_of(spec).chains;
    const std::vector<OrderCosts> costs = random_costs(stages, transfer, &random);
    if (traits_of(spec).made_for_costs()) spec.stage_costs = costs;
    const Order order = shuffled(make(spec), &random);
    INFO("case " << i << ": " << spec.name << " pp " << spec.pp << " vpp " << spec.vpp << " m "
                 << spec.microbatches);
    const LowerBound bound = bound_of(order, costs);
    CHECK(bound.makespan <= replay_queued(order, costs).makespan * (1 + kRounding));
    ++kinds[bound.kind];
  }
  CHECK(kinds[BoundKind::Path] > 0);
  CHECK(kinds[BoundKind::Work] > 0);
  CHECK(kinds[BoundKind::Memory] > 0);
  CHECK(kinds[BoundKind::Transfers] > 0);
}

TEST_CASE("brute force finds no order below the bound, and often one at it") {
  std::mt19937 random(test_seed());
  INFO("seed " << test_seed());
  int cases = 0, reached = 0;
  const auto check = [&](const Order& placed, double memory, const std::vector<OrderCosts>& costs) {
    BoundProblem problem = bound_problem(placed, costs, false);
    for (RankFloor& rank : problem.ranks) rank.memory = memory;
    const double bound = lower_bound(problem).makespan, best = best_makespan(problem);
    CHECK(bound <= best * (1 + kRounding));
    // A named order within that memory is one of all that were tried.
    if (std::ranges::all_of(bound_problem(placed, costs).ranks,
                            [&](const RankFloor& rank) { return rank.memory <= memory; }))
      CHECK(best <= replay_queued(placed, costs).makespan * (1 + kRounding));
    ++cases;
    reached += bound >= best * (1 - kRounding) ? 1 : 0;
  };
  for (int i = 0; i < 40; ++i) {
    const bool folded = i % 4 == 3;
    const int pp = folded ? 2 : 2 + i % 2, m = folded ? 2 : 2 + static_cast<int>(random() % 3);
    const Order placed =
        make({.name = folded ? "zbv" : "zb1p", .pp = pp, .vpp = folded ? 2 : 1, .microbatches = m});
    const double transfer = std::array{0.0, 0.5, 2.5}[random() % 3];
    const std::vector<OrderCosts> costs =
        i % 3 == 0 ? std::vector<OrderCosts>(placed.stages, {1, 1, 1, transfer})
                   : random_costs(placed.stages, transfer, &random);
    for (int memory = folded ? 2 : 1; memory <= (folded ? 4 : m); ++memory) {
      INFO("case " << i << ": pp " << pp << " m " << m << " memory " << memory << " transfer "
                   << transfer);
      check(placed, memory, costs);
    }
  }
  INFO(reached << " of " << cases << " reached");
  CHECK(cases > 90);
  CHECK(2 * reached > cases);
}

}  // namespace tandem
