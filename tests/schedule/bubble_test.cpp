// Bubbles explained: each part by hand, and all of them together always the bubble.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "schedule/order/bubble.h"
#include "schedule/order/order_replay.h"
#include "tests/seed.h"

namespace tandem {
namespace {

Bubble explained(const OrderSpec& spec, const std::vector<OrderCosts>& stages) {
  const auto order = make_order(spec);
  REQUIRE(order.ok());
  return explain_bubble(*order, stages);
}

double sum(const Bubble& b) {
  return b.transfers + b.fill + b.drain + b.imbalance + b.waiting + b.memory + b.postponed;
}

}  // namespace

TEST_CASE("1F1B's bubble is the way to the last rank and back") {
  // (p - 1) F = 3 and (p - 1) B = 6 around 8 x 3 of work.
  const Bubble b = explained({.name = "1f1b", .pp = 4, .microbatches = 8},
                             std::vector<OrderCosts>(4, {1, 1, 1, 0}));
  CHECK(b.makespan == 33);
  CHECK(b.work == 24);
  CHECK(b.rank == 3);
  CHECK(b.fill == 3);
  CHECK(b.drain == 6);
  CHECK(sum(b) == b.total());
  CHECK(b.fill + b.drain == b.total());
}

TEST_CASE("a long stage is imbalance, and its rank's work above the mean is how much") {
  // The last of 4 stages takes 6, the others 3: 8 x (6 - 15/4) = 18 above the mean rank's.
  std::vector<OrderCosts> stages(4, {1, 1, 1, 0});
  stages[3] = {2, 2, 2, 0};
  const Bubble b = explained({.name = "1f1b", .pp = 4, .microbatches = 8}, stages);
  CHECK(b.rank == 3);
  CHECK(b.stage == 3);
  CHECK(b.longest_stage_ratio == 6 / 3.75);
  CHECK(b.imbalance == 18);
  CHECK(b.fill == 3);
  CHECK(b.drain == 6);
  CHECK(sum(b) == b.total());
}

TEST_CASE("transfers are what an order ends earlier without them") {
  // GPipe, one microbatch: 2 transfers of 0.5 each way.
  const Bubble b = explained({.name = "gpipe", .pp = 3, .microbatches = 1},
                             std::vector<OrderCosts>(3, {1, 1, 1, 0.5}));
  CHECK(b.transfers == 4 * 0.5);
  CHECK(b.total() == 3 * 3 + 2 - 3);
  CHECK(sum(b) == b.total());
}

TEST_CASE("transfers that take longer than a pass wait for each other") {
  // GPipe, forwards of 1 and 8 transfers of 10: the last ends at 1 + 80, its forward at 82. Without
  // waiting it would be there at 8 + 10. Back come 8 of I + W = 4, each 10 later than the last.
  const Bubble b = explained({.name = "gpipe", .pp = 2, .microbatches = 8},
                             std::vector<OrderCosts>(2, {1, 1, 1, 10}));
  CHECK(b.makespan == 82 + 2 + 8 * 10 + 2);
  CHECK(sum(b) == b.total());
}

TEST_CASE("a rank that could begin a forward, but holds all it may, waits for memory") {
  // The first of two stages takes twice as long as the second, and 1F1B holds 2 activations there:
  // F0, F1 end at 4; the second rank's B0 at 2 + 1 + 2 = 5. From 4 to 5 F2 would be ready.
  const Bubble b =
      explained({.name = "1f1b", .pp = 2, .microbatches = 4}, {{2, 2, 2, 0}, {1, 1, 1, 0}});
  CHECK(b.rank == 0);
  CHECK(b.memory == 1);
  CHECK(b.imbalance == 4 * (6 - 4.5));
  CHECK(sum(b) == b.total());
}

TEST_CASE("a rank that waits with a weight gradient at hand has its sequence to blame") {
  // One rank's order by hand: I of microbatch 1 before W of microbatch 0, though its gradient comes
  // from the other rank two units later.
  Order order{.name = "by hand", .stages = 2, .microbatches = 2};
  const auto act = [](int stage, ActionKind kind, int microbatch) {
    return Action{static_cast<Stage>(stage), kind, static_cast<Microbatch>(microbatch)};
  };
  using enum ActionKind;
  order.ranks = {{act(0, Forward, 0), act(0, Forward, 1), act(0, BackwardInput, 0),
                  act(0, BackwardInput, 1), act(0, BackwardWeight, 0), act(0, BackwardWeight, 1)},
                 {act(1, Forward, 0), act(1, BackwardInput, 0), act(1, BackwardWeight, 0),
                  act(1, Forward, 1), act(1, BackwardInput, 1), act(1, BackwardWeight, 1)}};
  REQUIRE(validate(order).ok());
  // Rank 0: F 0-2, I0 3-4, I1 6-7 (rank 1's I1 ends at 6), W 7-9. It idles 2-3 with nothing to do,
  // 4-6 with W0 behind. Rank 1 idles 0-1 and from 7 on, and nothing in between.
  const Bubble equal = explain_bubble(order, std::vector<OrderCosts>(2, {1, 1, 1, 0}));
  CHECK(equal.rank == 1);
  CHECK(equal.fill == 1);
  CHECK(equal.drain == 2);
  // A longer W on rank 0 makes it the one that is told of: W 7-10-13, its gaps as before.
  const Bubble longer = explain_bubble(order, std::vector<OrderCosts>{{1, 1, 3, 0}, {1, 1, 1, 0}});
  CHECK(longer.rank == 0);
  CHECK(longer.waiting == 1);
  CHECK(longer.postponed == 2);
  CHECK(longer.imbalance == 2);
  CHECK(sum(longer) == longer.total());
}

TEST_CASE("the parts of any order's bubble add up to it, and none is below zero") {
  std::mt19937 random(test_seed());
  INFO("seed " << test_seed());
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int i = 0; i < 300; ++i) {
    const OrderTraits& traits =
        named_orders()[draw(0, static_cast<int>(named_orders().size()) - 1)];
    OrderSpec spec{std::string(traits.name), draw(1, 6), 1, draw(1, 12)};
    spec.vpp = traits.placement.vpp > 0 ? traits.placement.vpp : draw(traits.least_vpp, 3);
    if (!check_order(spec).ok()) continue;
    std::vector<OrderCosts> stages;
    const double transfer = draw(0, 3) * 0.25;
    for (int s = 0; s < spec.pp * spec.vpp * traits.chains; ++s)
      stages.push_back({draw(4, 12) * 0.25, draw(4, 12) * 0.25, draw(4, 12) * 0.25, transfer});
    if (traits.made_for_costs()) spec.stage_costs = stages;
    const Bubble b = explained(spec, stages);
    INFO("case " << i << ": " << spec.name << " pp " << spec.pp << " m " << spec.microbatches);
    CHECK(std::abs(sum(b) - b.total()) <= 1e-12 * b.makespan);
    for (const double part :
         {b.transfers, b.fill, b.drain, b.imbalance, b.waiting, b.memory, b.postponed})
      CHECK(part >= -1e-12 * b.makespan);
  }
}

}  // namespace tandem
